"""``manage.py counters consume``: counts the messages of a stream, page by page."""

from __future__ import annotations

import json
import time
from argparse import ArgumentParser
from collections.abc import Iterator
from contextlib import closing
from dataclasses import asdict
from typing import Any

from django.core.management.base import BaseCommand, CommandError, OutputWrapper
from django.db import InterfaceError, OperationalError, close_old_connections
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from django_counters.contrib.streams.consuming import Consumed, Consumer, backend_of
from django_counters.contrib.streams.declared import streams
from django_counters.contrib.streams.errors import DecodeFailed, UnknownSignature
from django_counters.errors import OutcomeUnknown, ReadOnlyDatabase
from django_counters.management.work import seconds, until_asked_to_end
from django_counters.redis.commands import ServerRefused

HELP = gettext_lazy("count the messages of a stream")
# The database or the backend is unavailable for a moment; a loop goes on when it is back.
_PASSING = (OperationalError, InterfaceError, ReadOnlyDatabase, OutcomeUnknown, ServerRefused)
# Seconds to wait after one of them, if the loop's interval is shorter.
_PAUSE = 1.0


def add_arguments(parser: ArgumentParser) -> None:
    """Add the options of the sub-command."""
    parser.add_argument("stream", help=_("its name in COUNTERS_STREAMS"))
    parser.add_argument(
        "--loop",
        type=seconds,
        metavar="SECONDS",
        help=_("don't end; when nothing is left, look again after so many seconds"),
    )


def handle(
    command: BaseCommand,
    using: str,
    *,
    stream: str,
    loop: float | None,
    as_json: bool,
    **_options: Any,
) -> None:
    """Consume a stream until nothing is left or, in a loop, until the process is asked to end.

    Raises:
        CommandError: the stream isn't declared, or `DECODE` can't work; without a loop, also if a
            message can't be counted.
    """
    known, out, err = streams(), command.stdout, command.stderr
    if stream not in known:
        names = ", ".join(known) or "none"
        raise CommandError(f"COUNTERS_STREAMS has no stream {stream!r}. It has: {names}.")
    declared = known[stream]
    consumer = backend_of(declared).consumer(declared, using)
    problems: list[str] = []
    with closing(consumer):
        for done in _explained(_all(consumer) if loop is None else _on(consumer, loop, err)):
            if done.messages or loop is None:
                _say(out, using, stream, done, as_json=as_json)
            problems = list(_problems(done))
            for problem in problems if loop is not None else ():
                err.write(problem)
    if loop is None and problems:
        raise CommandError("; ".join(problems))


def _explained(turns: Iterator[Consumed]) -> Iterator[Consumed]:
    """Yield the turns. End the command without a traceback for errors with a remedy."""
    try:
        yield from turns
    except (DecodeFailed, UnknownSignature) as error:
        raise CommandError(str(error)) from error


def _all(consumer: Consumer) -> Iterator[Consumed]:
    """Count all present messages, as one report."""
    whole = Consumed()
    with until_asked_to_end() as wait:
        while wait(0):
            done = consumer.turn()
            whole.join(done)
            if not done.messages and consumer.is_at_end:
                break
    yield whole


def _on(consumer: Consumer, every: float, err: OutputWrapper) -> Iterator[Consumed]:
    """Take one turn after the other. The loop finishes its page before it ends."""
    with until_asked_to_end() as wait:
        pause = 0.0
        while wait(min(pause, consumer.longest_pause)):
            began = time.monotonic()
            # The server may have restarted, or the connection may be old.
            close_old_connections()
            try:
                done = consumer.turn()
            except _PASSING as error:
                err.write(str(error).strip())
                pause = max(every, _PAUSE)
                continue
            pause = 0.0 if done.messages else every - (time.monotonic() - began)
            yield done


def _say(out: OutputWrapper, using: str, stream: str, done: Consumed, *, as_json: bool) -> None:
    text = f"{done.messages} messages counted in {done.pages} pages: {done.counters} totals changed"
    busy = f"; busy: {', '.join(done.busy)}" if done.busy else ""
    data = {"database": using, "stream": stream, **asdict(done)}
    out.write(json.dumps(data) if as_json else text + busy)
    # The log of a loop is read while it runs.
    out.flush()


def _problems(done: Consumed) -> Iterator[str]:
    if done.poison:
        yield f"{done.poison} messages can't be counted; they are in incidents"
    if done.quarantined:
        yield f"{len(done.quarantined)} amounts can't be counted; they are in incidents"
    if done.incidents:
        yield f"{len(done.incidents)} incidents: {', '.join(done.incidents)}"
