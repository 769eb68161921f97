"""What commands and jobs share: the work of each job in words, and loops that end when asked."""

from __future__ import annotations

import os
import signal
import time
from argparse import ArgumentTypeError
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from selectors import EVENT_READ, DefaultSelector
from types import FrameType
from typing import Any

from django.db import InterfaceError, OperationalError, close_old_connections

from django_counters import errors, upkeep
from django_counters.features import Done

# The functions of the jobs.

MOST_SHOWN = 20


def rollup(using: str) -> Done:
    """Fold shards, slots and entries into the totals."""
    report = upkeep.rollup(using)
    text = (
        f"{report.rows} rows folded, {report.orphans} without a record dropped, "
        f"{report.left} left; {report.entries} entries folded, {report.waiting} left"
    )
    text += "".join(f", {number} {name}" for name, number in report.others.items() if number)
    stuck = ", ".join(report.stuck)
    problems = [f"These do not fit, or have no possible record: {stuck}"] if stuck else []
    problems += _failures(report.failed)
    return Done(text, {"database": using, **asdict(report)}, problems, retry=bool(report.failed))


def prune(using: str) -> Done:
    """Delete expired rows."""
    gone, failed = upkeep.prune_all(using)
    *some, last = (f"{number} {kind}" for kind, number in gone.items())
    text = f"{', '.join(some)} and {last} forgotten"
    return Done(text, {"database": using, **gone}, _failures(failed), bool(failed))


def _failures(failed: Mapping[str, str]) -> list[str]:
    return [f"{app} failed: {error}" for app, error in failed.items()]


def verify(using: str, **asked: Any) -> Done:
    """Compare values with what they are made of."""
    report = upkeep.verify(using, **asked)
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
# The database is away for a moment; a loop goes on when it is back.
PASSING = (OperationalError, InterfaceError, errors.ReadOnlyDatabase)


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


def turns(every: float, wait: Wait) -> Iterator[None]:
    """Turns of a loop, one every so many seconds, until the process is asked to end."""
    due = time.monotonic()
    while wait(due - time.monotonic()):
        due = time.monotonic() + every
        # The server may have restarted, or the connection may be old.
        close_old_connections()
        yield


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
