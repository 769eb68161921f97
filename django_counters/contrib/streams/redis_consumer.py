"""Counts the messages of Redis streams, without consumer groups.

One page is one transaction: it holds the part's position, reads the messages after it, adds the
changes to the totals and moves the position. While it is open, no other process reads that part. It
ends with the process or the connection, or the server ends it if its owner stands still for too
long.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from math import inf

from django.db import DataError

from django_counters.contrib.streams import consuming
from django_counters.contrib.streams.declared import Stream
from django_counters.contrib.streams.pages import MessagePage, write_lost
from django_counters.contrib.streams.redis import Entries, Message, RedisStream, milliseconds_of
from django_counters.errors import CounterUnavailable, OutcomeUnknown
from django_counters.landing import Landed, PageOverflow
from django_counters.redis.commands import ServerRefused
from django_counters.stores.base import Move, PartitionBusy
from django_counters.stores.sql.positions import Moved, Position


class Ahead:
    """Reads the next page of a part while the database counts the one before it.

    A page counts only at the position that it was read from, and one process holds it.
    """

    def __init__(self) -> None:
        self._beside = ThreadPoolExecutor(1, "django_counters_stream")
        # By part: the position, and the page after it.
        self._read: dict[str, tuple[str, Future[Entries]]] = {}

    def begin(self, part: RedisStream, position: str, most: int) -> None:
        """Begin to read the messages after a position, for the next turn."""
        self._read[part.name] = position, self._beside.submit(part.since, position, most)

    def take(self, part: RedisStream, position: str) -> Entries | None:
        """Return the page after a position; None if it must be read now.

        A page that wasn't full may have more now, and small pages cost as much as full ones.
        """
        at, read = self._read.pop(part.name, ("", None))
        if read is None or at != position:
            return None
        try:
            page = read.result()
        except (CounterUnavailable, OutcomeUnknown, ServerRefused):
            # The next read shows whether the error persists.
            return None
        return page if page.is_full else None

    def close(self) -> None:
        """Stop reading, without waiting."""
        self._beside.shutdown(wait=False, cancel_futures=True)


class RedisConsumer(consuming.PageConsumer):
    """Counts one stream in one database. Any number of them work at once. See `PageConsumer`.

    Raises:
        InvalidConfiguration: the stream's Redis server or function can't be found.
    """

    def _connect(self, stream: Stream) -> None:
        self._parts = [RedisStream(stream.location, part) for part in stream.parts]
        self._ahead = Ahead()
        # Parts that are known to have a row.
        self._made: set[str] = set()

    #: A part that a turn didn't read is missing, or another process reads it.
    is_at_end = True
    #: It holds nothing between turns.
    longest_pause = inf

    def close(self) -> None:
        """Stop reading ahead. It holds nothing else between turns."""
        self._ahead.close()

    def turn(self) -> consuming.Consumed:
        """Count one page of each part, each in a transaction of its own.

        Raises:
            DecodeFailed: `DECODE` can't work. This page isn't counted.
            CounterUnavailable, OutcomeUnknown, Refused: the database or Redis was lost. You don't
                have to repair anything.
        """
        done = consuming.Consumed()
        for part in self._parts:
            self._count_one(part, done)
        return done

    def _count_one(self, part: RedisStream, done: consuming.Consumed) -> None:
        """Count one page of a part, a smaller one if the database refuses it."""
        if part.name not in self._made:
            self._positions.make(self._source, part.name)
            self._made.add(part.name)
        while True:
            try:
                return self._count(part, done)
            except consuming.Again:
                continue
            except (PartitionBusy, Moved):
                # The row of the part is held: only a buffer has moved, by another stream.
                return done.busy.append(part.name)

    def _count(self, part: RedisStream, done: consuming.Consumed) -> None:
        """Count one page of a part."""
        with self._landing.begun([]):
            position = self._positions.hold(self._source, part.name, self._lease)
            if position is None:
                done.busy.append(part.name)
                # Or a process has deleted it.
                self._made.discard(part.name)
                return
            # Decoding a page may take longer than the server waits for the next statement.
            until = time.monotonic() + self._lease / 2
            self._step("read")
            # With the entry at the position: if it is missing, so may be entries after it.
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

    def _landed(
        self, fresh: list[Message], position: str, until: float
    ) -> tuple[MessagePage, Landed]:
        """Count a page of the messages that are decoded until a moment, at least one."""
        try:
            page = self._decoded(fresh, until)
            self._step("land")
            last = fresh[page.messages - 1]
            move = Move(self._source, last.part, position, last.offset)
            return page, page.land(self._landing, self._source, [move])
        except (DataError, PageOverflow) as error:
            self._portion.refuse(fresh, error)

    def _vanished(self, part: str, position: str, entries: Sequence[Message]) -> list[str]:
        """Record missing entries that may not have been counted."""
        if not position or entries[0].offset == position:
            return []
        return [write_lost(part, position, entries[0].offset, self._source, self._using)]

    def _gone(self, part: RedisStream, position: str) -> list[str]:
        """Report a stream that ends before its position: it was deleted and made again."""
        end = part.end() if position else ""
        return self._beyond.tell(part.name, position, end) if is_beyond(position, end) else []


def is_beyond(position: str, end: str) -> bool:
    """Return whether a position is beyond the last entry that a stream ever had."""
    return bool(position) and _order(position) > _order(end or "0-0")


def _order(position: str) -> tuple[int, int]:
    milliseconds, _, number = position.partition("-")
    return int(milliseconds), int(number or 0)


def _waiting(stream: Stream, known: Mapping[str, Position]) -> Iterator[consuming.StreamBacklog]:
    for part in stream.parts:
        try:
            yield _behind(RedisStream(stream.location, part), known.get(part, Position()).position)
        except (CounterUnavailable, OutcomeUnknown, ServerRefused) as error:
            yield consuming.StreamBacklog(part, problem=error)


def _behind(reader: RedisStream, position: str) -> consuming.StreamBacklog:
    end = reader.end()
    if is_beyond(position, end):
        return consuming.StreamBacklog(reader.name, is_beyond=True)
    # Before the first page, all entries wait.
    begin = position or next((one.offset for one in reader.since("", 1).messages), end)
    if not end:
        return consuming.StreamBacklog(reader.name, timedelta(0))
    lag = timedelta(milliseconds=milliseconds_of(end) - milliseconds_of(begin))
    oldest = datetime.fromtimestamp(milliseconds_of(begin) / 1000, UTC)
    return consuming.StreamBacklog(reader.name, lag, waits=end != position, since=lambda: oldest)


BACKEND = consuming.Backend(RedisConsumer, _waiting)
