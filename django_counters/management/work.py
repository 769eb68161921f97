"""What commands and jobs share: the work of each job in words, and loops that end when asked."""

from __future__ import annotations

import os
import signal
from argparse import ArgumentTypeError
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from selectors import EVENT_READ, DefaultSelector
from types import FrameType
from typing import Any

from django_counters.features import Done
from django_counters.ledger.upkeep import maintain
from django_counters.upkeep import prune_all
from django_counters.upkeep import rollup as fold
from django_counters.upkeep import verify as compare

# The functions of the jobs.

MOST_SHOWN = 20


def flush(using: str, **options: Any) -> Done:
    """Flush; leave out a Redis server that another process is flushing.

    Args:
        using: the database.
        **options: as `django_counters.cached.flush.flush`.
    """
    from django_counters.cached import flush as cached

    report = cached.flush(using, **{"alone": True, **options})
    parts = (
        f"{report.counters} counters changed by {report.generations} generations",
        f"busy: {', '.join(report.busy)}" if report.busy else "",
        f"flushed elsewhere: {', '.join(report.elsewhere)}" if report.elsewhere else "",
    )
    problems = [f"{name} was not flushed: {reason}" for name, reason in report.away.items()]
    if report.quarantined:
        amounts = [f"{counter}: {by}" for counter, by in report.quarantined.items()]
        shown = ", ".join(amounts[:MOST_SHOWN])
        problems.append(f"{len(amounts)} could not be landed: {shown}")
    if report.incidents:
        shown = ", ".join(report.incidents[:MOST_SHOWN])
        problems.append(f"{len(report.incidents)} incidents: {shown}")
    return Done("; ".join(filter(None, parts)), {"database": using, **asdict(report)}, problems)


def rollup(using: str) -> Done:
    """Fold shards, slots and entries into the totals."""
    report = fold(using)
    text = (
        f"{report.rows} rows folded, {report.orphans} without a record dropped, "
        f"{report.left} left; {report.entries} entries folded, {report.waiting} left"
    )
    text += "".join(f", {number} {name}" for name, number in report.others.items() if number)
    stuck = ", ".join(report.stuck)
    problems = [f"These do not fit, or have no possible record: {stuck}"] if stuck else []
    problems += _failures(report.failed)
    return Done(text, {"database": using, **asdict(report)}, problems, retry=bool(report.failed))


def partitions(using: str) -> Done:
    """Make, seal and drop partitions of the ledger."""
    report = maintain(using)
    parts = (
        f"{len(report.created)} made",
        f"{len(report.sealed)} sealed",
        f"{len(report.dropped)} dropped",
        f"{len(report.busy)} busy" if report.busy else "",
        f"{report.forgotten} entries deleted" if report.forgotten else "",
    )
    failed = "; ".join(report.failed)
    problems = [f"{len(report.failed)} steps failed: {failed}"] if failed else []
    text = ", ".join(filter(None, parts))
    return Done(text, {"database": using, **asdict(report)}, problems)


def prune(using: str) -> Done:
    """Delete expired rows."""
    gone, failed = prune_all(using)
    *some, last = (f"{number} {kind}" for kind, number in gone.items())
    text = f"{', '.join(some)} and {last} forgotten"
    return Done(text, {"database": using, **gone}, _failures(failed), bool(failed))


def _failures(failed: Mapping[str, str]) -> list[str]:
    return [f"{app} failed: {error}" for app, error in failed.items()]


def verify(using: str) -> Done:
    """Compare values with what they are made of."""
    return verified(using)


def verified(using: str, **asked: Any) -> Done:
    """The result of a comparison, in words."""
    report = compare(using, **asked)
    drifts = [drift._asdict() for drift in report.drifts]
    text = f"{report.checked} counters and {report.partitions} sealed partitions checked"
    shown = [f"{d.key}: {d.actual}, not {d.expected}" for d in report.drifts[:MOST_SHOWN]]
    wrong = f"{len(drifts)} are not what they should be: {', '.join(shown)}"
    problems = [*([wrong] if drifts else []), *_failures(report.failed)]
    data = {"database": using, **asdict(report), "drifts": drifts}
    # Not because of drifts, which stay.
    return Done(text, data, problems, retry=bool(report.failed))


# Loops.

ENDING = (signal.SIGINT, signal.SIGTERM)
Wait = Callable[[float], bool]


@contextmanager
def until_asked_to_end() -> Iterator[Wait]:
    """Yield a function that waits for some seconds, and returns whether to go on.

    SIGINT and SIGTERM end the wait, and the current work is finished. A second signal ends the
    process the usual way. It works only in the main thread, where signals arrive.
    """
    # A pipe, because a handler may run at any moment, even while a lock is held.
    reading, writing = os.pipe()
    # Like the descriptors of a process with many connections, this one may be above 1,023.
    selector = DefaultSelector()
    selector.register(reading, EVENT_READ)
    before = {number: signal.getsignal(number) or signal.SIG_DFL for number in ENDING}

    def ask(number: int, _: FrameType | None) -> None:
        signal.signal(number, before[signal.Signals(number)])
        os.write(writing, b".")

    def wait(seconds: float) -> bool:
        return not selector.select(max(seconds, 0))

    for number in ENDING:
        signal.signal(number, ask)
    try:
        yield wait
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        selector.close()
        os.close(reading)
        os.close(writing)


def seconds(text: str) -> float:
    """Return the interval of a loop, an argument of a command.

    Raises:
        ArgumentTypeError: it isn't one.
    """
    try:
        found = float(text)
    except ValueError:
        found = 0
    if not 0 < found <= 86_400:
        raise ArgumentTypeError(f"{text!r} isn't a number of seconds above 0, up to a day")
    return found
