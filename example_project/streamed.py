"""Counts an access log through a stream: many processes publish it, and consumers count it.

One of the consumers is killed while it counts. A new process imports this before it has settings,
so nothing here imports a model at the top.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Protocol

from django_counters import short_key
from django_counters.contrib.streams import KafkaMessage, Message
from example_project.access_log import Part, lines_of, parse, split
from example_project.bootstrap import children
from example_project.counting import LINES_AT_ONCE, Counted, Way
from example_project.flow import grouped
from example_project.run import KAFKA_WAY, WAY
from example_project.screen import say
from example_project.through_redis import ThroughRedis

CONSUMERS = 2
# Seconds: a consumer may have to wait until the server has noticed that another one is dead.
PATIENCE = 60.0


class Stuck(Exception):
    """What was published is not counted."""


class Through(Protocol):
    """A stream, whatever its backend. ``name``: that in the settings."""

    name: str

    def begin(self) -> None:
        """Have nothing left of an earlier replay."""

    def send(self, messages: Iterable[Mapping[str, str]]) -> None:
        """Publish messages. Those of one page stay in order."""

    def ends(self) -> dict[str, str]:
        """The position of all that is there, of parts that have something."""

    def waiting(self, positions: Mapping[str, str]) -> int:
        """How many messages come after positions."""

    def trim(self, ends: Mapping[str, str]) -> None:
        """Remove what is counted."""


def through() -> Through:
    """The stream that this replay goes through."""
    if os.environ.get(WAY) == KAFKA_WAY:
        # Needs confluent-kafka, which a replay through Redis does not.
        from example_project.through_kafka import ThroughKafka

        return ThroughKafka()
    return ThroughRedis()


def publish_part(path: Path, part: Part) -> Counted:
    """Publish the lines that begin in a part, a message each. Lines of one page stay in order."""
    stream = through()
    lines = malformed = 0
    shortened: dict[str, str] = {}
    every_line = lines_of(path, part)
    while chunk := list(islice(every_line, LINES_AT_ONCE)):
        entries = [entry for entry in map(parse, chunk) if entry]
        messages: list[dict[str, str]] = []
        for entry in entries:
            keys = {full: short_key(full) for full in entry.counters()}
            shortened |= {full: key for full, key in keys.items() if full != key}
            messages.append(dict(zip(("page", "status", "hour"), keys.values(), strict=True)))
        stream.send(messages)
        lines += len(chunk)
        malformed += len(chunk) - len(entries)
    return Counted(lines, malformed, shortened)


def changes(message: Message) -> Iterator[tuple[str, int]]:
    """What a message of Redis counts: its page, its status and its hour."""
    return ((key, 1) for key in message.fields.values())


def topic_changes(message: KafkaMessage) -> Iterator[tuple[str, int]]:
    """The same, of a message of Kafka."""
    return ((key, 1) for key in json.loads(message.value or b"").values())


#: Each part of the file is published by a process; see `consume` for what counts it.
PUBLISHED = Way(split, publish_part)


def consume() -> None:
    """Count all that is published, by consumers of which one is killed meanwhile.

    Raises:
        Stuck: it is not counted within a minute, or a consumer has ended.
    """
    stream = through()
    ends = stream.ends()
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "consumers"
        crew = [_consumer(stream, log) for _ in range(CONSUMERS)]
        try:
            before = _positions(stream)
            _wait(lambda: _positions(stream) != before or before == ends, crew, log)
            crew.pop(0).kill()
            left = stream.waiting(_positions(stream))
            say(f"a consumer was killed while {grouped(left)} messages were left")
            crew.append(_consumer(stream, log))
            _wait(lambda: _positions(stream) == ends, crew, log)
        finally:
            # All at the same time.
            for one in crew:
                one.ask()
            for one in crew:
                one.stop()
    stream.trim(ends)


def _consumer(stream: Through, log: Path) -> children.Child:
    command = [sys.executable, "-m", "django", "counters", "consume", stream.name, "--loop", "0.2"]
    return children.start(command, log=log)


def _wait(done: Callable[[], bool], crew: list[children.Child], log: Path) -> None:
    until = time.monotonic() + PATIENCE
    while not done():
        if time.monotonic() > until or not all(one.running for one in crew):
            raise Stuck(f"the consumers say: {log.read_text().strip()[-2000:] or 'nothing'}")
        time.sleep(0.005)


def _positions(stream: Through) -> dict[str, str]:
    from django_counters.models import CounterPosition

    rows = CounterPosition.objects.filter(source=f"stream {stream.name}").exclude(position="")
    return dict(rows.values_list("part", "position"))
