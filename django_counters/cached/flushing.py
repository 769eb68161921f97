"""``manage.py counters flush``, and its job: flushes increments from Redis."""

from __future__ import annotations

from argparse import ArgumentParser
from dataclasses import asdict
from typing import Any

from django.core.management.base import CommandError
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from django_counters.features import Done
from django_counters.management import work

HELP = gettext_lazy("flush increments from Redis into the totals")


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
        shown = ", ".join(amounts[: work.MOST_SHOWN])
        problems.append(f"{len(amounts)} could not be landed: {shown}")
    if report.incidents:
        shown = ", ".join(report.incidents[: work.MOST_SHOWN])
        problems.append(f"{len(report.incidents)} incidents: {shown}")
    return Done("; ".join(filter(None, parts)), {"database": using, **asdict(report)}, problems)


def add_arguments(parser: ArgumentParser) -> None:
    """Add the options of the sub-command."""
    parser.add_argument(
        "--loop", type=work.seconds, metavar="SECONDS", help=_("again every so many seconds")
    )
    parser.add_argument(
        "--adopt",
        action="store_true",
        help=_("this database has taken the place of the one that was flushed to before"),
    )


def handle(
    command: Any, using: str, *, loop: float | None, adopt: bool, as_json: bool, **_options: Any
) -> None:
    """Flush once, or again and again until the process is asked to end.

    Raises:
        CommandError: ``--adopt`` in a loop; without a loop, also if something can't be flushed.
    """
    if loop is None:
        command.report(_shown(command, using, alone=False, adopt=adopt), as_json=as_json)
        return
    if adopt:
        raise CommandError("--adopt is done once, without --loop.")
    with work.until_asked_to_end() as wait:
        for _turn in work.turns(loop, wait):
            try:
                done = _shown(command, using, alone=True)
            except work.PASSING as error:
                command.stderr.write(str(error).strip())
                continue
            if as_json or done.data["generations"] or done.data["busy"]:
                command.show(as_json, done.data, done.text)
            command.complain(done.problems)


def _shown(command: Any, using: str, **options: Any) -> Done:
    """Flush, and show the progress."""
    landed = 0

    def step(name: str) -> None:
        nonlocal landed
        landed += name == "acknowledged"
        command.progress(f"{landed} transactions done, {name}")

    try:
        return flush(using, step=step, **options)
    finally:
        command.progress()
