"""Counts the messages of Redis streams: who holds the row of a part reads on. No consumer groups.

One page is one transaction: it holds the position of the part, reads what comes after it, adds the
changes to the totals and moves the position. While it is open nobody else reads that part. It ends
with the process, with the connection, or by the server where its owner stands still for too long.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from django_counters.intake.land import Landing
from django_counters.intake.landed import Landed, add_up
from django_counters.intake.pages import Health, Page
from django_counters.intake.streams import Stream
from django_counters.registry import registry
from django_counters.stores.base import Move
from django_counters.stores.redis.streams import Message, RedisStream
from django_counters.stores.sql.incidents import record
from django_counters.stores.sql.partitions import Busy
from django_counters.tables import CounterIncident

# Seconds after which the server ends the transaction of a consumer that stands still.
LEASE = 30.0
Step = Callable[[str], None]


@dataclass
class Consumed:
    """What a consumer did.

    Attributes:
        pages: how many transactions counted something.
        messages: how many messages were read.
        counters: how often a total was changed.
        poison: how many messages could not be counted; each is in an incident.
        quarantined: amounts that could not be landed, by counter; each is in an incident.
        incidents: what was found to be lost.
        busy: parts that somebody else was reading.
    """

    pages: int = 0
    messages: int = 0
    counters: int = 0
    poison: int = 0
    quarantined: dict[str, int] = field(default_factory=dict)
    incidents: list[str] = field(default_factory=list)
    busy: list[str] = field(default_factory=list)

    def add(self, page: Page, landed: Landed) -> None:
        """Add what became of a page."""
        quarantined, incidents = landed.quarantined, landed.incidents
        done = 1, page.messages, landed.counters, page.poison
        self.join(Consumed(*done, quarantined, incidents))

    def join(self, more: Consumed) -> None:
        """Add what was done later."""
        self.pages += more.pages
        self.messages += more.messages
        self.counters += more.counters
        self.poison += more.poison
        self.incidents += more.incidents
        self.busy = sorted({*self.busy, *more.busy})
        add_up(self.quarantined, more.quarantined)


class RedisConsumer:
    """Counts one stream in one database. Any number of them work at once.

    Args:
        stream: which one.
        using: the database.
        lease: after how many seconds of standing still others may read on.
        step: called with the name of each step before it is taken.

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
        self._stream = stream
        self._using = using
        self._lease = lease
        self._step = step
        self._decode = stream.decoder()
        self._parts = [RedisStream(stream.location, part) for part in stream.parts]
        self._positions = registry.positions(using)
        self._landing = Landing(using, stream.source)
        self._health = Health(stream.name)
        self._made = False

    def turn(self) -> Consumed:
        """Count one page of each part, each in a transaction of its own.

        Raises:
            StreamPoisoned: too many messages cannot be counted. This page is not counted.
            CounterUnavailable, OutcomeUnknown, Refused: the database or the Redis was lost. Nothing
                has to be repaired.
        """
        if not self._made:
            for part in self._parts:
                self._positions.make(self._stream.source, part.name)
            self._made = True
        done = Consumed()
        for part in self._parts:
            try:
                self._count(part, done)
            except Busy:
                done.busy.append(part.name)
        return done

    def _count(self, part: RedisStream, done: Consumed) -> None:
        """Count one page of a part."""
        with self._landing.begun([]):
            position = self._positions.hold(self._stream.source, part.name, self._lease)
            if position is None:
                done.busy.append(part.name)
                return
            self._step("read")
            # With the entry at the position: where that is gone, so may be what came after it.
            entries = part.since(position.position, self._stream.page + 1)
            told = self._vanished(part.name, position.position, entries)
            fresh = [one for one in entries if one.offset != position.position]
            if not fresh:
                return
            fresh = fresh[: self._stream.page]
            page = self._decoded(fresh)
            self._step("land")
            move = Move(self._stream.source, part.name, position.position, fresh[-1].offset)
            landed = self._landing.land([page.parcel(self._stream.source, [move])])
            landed.incidents += told
            self._step("commit")
        self._step("committed")
        done.add(page, landed)

    def _decoded(self, messages: Sequence[Message]) -> Page:
        page = Page(self._decode, self._using)
        for message in messages:
            page.add(message)
        self._health.check(page)
        return page

    def _vanished(self, part: str, position: str, entries: Sequence[Message]) -> list[str]:
        """Write down that entries are gone which nobody has counted, as far as anybody can know."""
        if not position or not entries or entries[0].offset == position:
            return []
        detail = {"part": part, "after": position, "before": entries[0].offset}
        record(CounterIncident.Kind.LOST, self._stream.source, detail, self._using)
        return [f"lost: {part} after {position}"]
