"""Counts the messages of Redis streams: who holds the row of a part reads on. No consumer groups.

One page is one transaction: it holds the position of the part, reads what comes after it, adds the
changes to the totals and moves the position. While it is open no other process reads that part. It
ends with the process, with the connection, or by the server where its owner stands still for too
long.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from math import inf

from django.db import DataError

from django_counters.exceptions import CounterUnavailable, OutcomeUnknown
from django_counters.intake.backend import Backend, Consumed, Step, Waiting
from django_counters.intake.beyond import write_lost
from django_counters.intake.consuming import LEASE, Again, PageConsumer
from django_counters.intake.landed import Landed, PageOverflow
from django_counters.intake.pages import Page
from django_counters.stores.base import Move
from django_counters.stores.redis.commands import Refused
from django_counters.stores.redis.streams import Entries, Message, RedisStream, milliseconds_of
from django_counters.stores.sql.partitions import Busy
from django_counters.stores.sql.positions import Moved, Position
from django_counters.streams import Stream


class Ahead:
    """Reads the next page of a part while the database counts the one before it.

    A page counts only at the position that it was read from, and one process holds that.
    """

    def __init__(self) -> None:
        self._beside = ThreadPoolExecutor(1, "django_counters_stream")
        # By part: from where on.
        self._read: dict[str, tuple[str, Future[Entries]]] = {}

    def begin(self, part: RedisStream, position: str, most: int) -> None:
        """Read what comes after a position, for the next turn."""
        self._read[part.name] = position, self._beside.submit(part.since, position, most)

    def take(self, part: RedisStream, position: str) -> Entries | None:
        """The page that follows a position; None where it has to be read now.

        A page that was not full may have more by now, and small pages cost as much as full ones.
        """
        at, read = self._read.pop(part.name, ("", None))
        if read is None or at != position:
            return None
        try:
            found = read.result()
        except (CounterUnavailable, OutcomeUnknown, Refused):
            # A process that reads now learns whether it is still so.
            return None
        return found if found.is_full else None

    def close(self) -> None:
        """Wait for nothing that is read."""
        self._beside.shutdown(wait=False, cancel_futures=True)


class RedisConsumer(PageConsumer):
    """Counts one stream in one database. Any number of them work at once. See `PageConsumer`.

    Raises:
        InvalidConfiguration: the Redis or the function of the stream cannot be found.
    """

    def __init__(
        self,
        stream: Stream,
        using: str,
        *,
        lease: float = LEASE,
        step: Step = lambda name: None,  # noqa: ARG005
    ) -> None:
        super().__init__(stream, using, lease, step)
        self._parts = [RedisStream(stream.location, part) for part in stream.parts]
        self._ahead = Ahead()
        # Parts that have a row, as far as it is known.
        self._made: set[str] = set()

    #: A part that a turn did not read is missing, or another process reads it.
    is_at_end = True
    #: Nothing is held between turns.
    longest_pause = inf

    def close(self) -> None:
        """Read no further. Nothing else is held between turns."""
        self._ahead.close()

    def turn(self) -> Consumed:
        """Count one page of each part, each in a transaction of its own.

        Raises:
            DecodeFailed: `DECODE` can't work. This page is not counted.
            CounterUnavailable, OutcomeUnknown, Refused: the database or the Redis was lost. Nothing
                has to be repaired.
        """
        done = Consumed()
        for part in self._parts:
            self._count_one(part, done)
        return done

    def _count_one(self, part: RedisStream, done: Consumed) -> None:
        """Count one page of a part, smaller than others where that has to be."""
        if part.name not in self._made:
            self._positions.make(self._source, part.name)
            self._made.add(part.name)
        while True:
            try:
                return self._count(part, done)
            except Again:
                continue
            except (Busy, Moved):
                # The row of the part is held: only a buffer has moved, by another stream.
                return done.busy.append(part.name)

    def _count(self, part: RedisStream, done: Consumed) -> None:
        """Count one page of a part."""
        with self._landing.begun([]):
            position = self._positions.hold(self._source, part.name, self._lease)
            if position is None:
                done.busy.append(part.name)
                # Or a process has deleted it.
                self._made.discard(part.name)
                return
            # To decode a page may take longer than the server waits for the next statement.
            until = time.monotonic() + self._lease / 2
            self._step("read")
            # With the entry at the position: where that is gone, so may be what came after it.
            most = self._portion.size + 1
            read = self._ahead.take(part, position.position) or part.since(position.position, most)
            entries = read.messages
            if not entries:
                done.incidents += self._gone(part, position.position)
                return
            told = self._vanished(part.name, position.position, entries)
            fresh = [one for one in entries if one.offset != position.position]
            if not fresh:
                return
            fresh = fresh[: self._portion.size]
            if read.is_full:
                self._ahead.begin(part, fresh[-1].offset, most)
            page, landed = self._landed(fresh, position.position, until)
            landed.incidents += told
            self._step("commit")
        self._has_landed(page, landed, done)

    def _landed(self, fresh: list[Message], position: str, until: float) -> tuple[Page, Landed]:
        """Land messages as a page: those that are decoded until a moment, and one at least."""
        try:
            page = self._decoded(fresh, until)
            self._step("land")
            last = fresh[page.messages - 1]
            move = Move(self._source, last.part, position, last.offset)
            return page, page.land(self._landing, self._source, [move])
        except (DataError, PageOverflow) as error:
            self._portion.refuse(fresh, error)

    def _vanished(self, part: str, position: str, entries: Sequence[Message]) -> list[str]:
        """Write down that entries are gone which no process has counted, as far as is known."""
        if not position or entries[0].offset == position:
            return []
        return [write_lost(part, position, entries[0].offset, self._source, self._using)]

    def _gone(self, part: RedisStream, position: str) -> list[str]:
        """Say that all of a stream is before its position: it was deleted, and made again."""
        end = part.end() if position else ""
        return self._beyond.tell(part.name, position, end) if is_beyond(position, end) else []


def is_beyond(position: str, end: str) -> bool:
    """Whether a position is beyond the last entry that a stream ever had."""
    return bool(position) and _order(position) > _order(end or "0-0")


def _order(position: str) -> tuple[int, int]:
    milliseconds, _, number = position.partition("-")
    return int(milliseconds), int(number or 0)


def _waiting(stream: Stream, known: Mapping[str, Position]) -> Iterator[Waiting]:
    for part in stream.parts:
        try:
            yield _behind(RedisStream(stream.location, part), known.get(part, Position()).position)
        except (CounterUnavailable, OutcomeUnknown, Refused) as error:
            yield Waiting(part, problem=error)


def _behind(reader: RedisStream, position: str) -> Waiting:
    end = reader.end()
    if is_beyond(position, end):
        return Waiting(reader.name, is_beyond=True)
    # Before the first page all that is there waits.
    begin = position or next((one.offset for one in reader.since("", 1).messages), end)
    if not end:
        return Waiting(reader.name, timedelta(0))
    lag = timedelta(milliseconds=milliseconds_of(end) - milliseconds_of(begin))
    oldest = datetime.fromtimestamp(milliseconds_of(begin) / 1000, UTC)
    return Waiting(reader.name, lag, waits=end != position, since=lambda: oldest)


BACKEND = Backend(RedisConsumer, _waiting)
