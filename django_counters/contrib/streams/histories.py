"""Counts each message of a buffer once, by its number, and records lost messages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import NamedTuple

from django_counters.contrib.streams.publication import Publication
from django_counters.landing import Landed
from django_counters.registry import registry
from django_counters.stores.base import Move
from django_counters.stores.sql.batches import OLDEST, REMEMBERED, SqlBatches
from django_counters.stores.sql.incidents import record
from django_counters.tables import CounterIncident
from django_counters.write.pages import SOURCE


class Gap(NamedTuple):
    """Missing pages of one history: those between the numbers ``after`` and ``before``."""

    incarnation: str
    after: int
    before: int


class Histories:
    """Sorts messages of buffers by the positions of their histories: counted, or not.

    Attributes:
        fresh: the messages that aren't counted.
        repeats: the number of messages that were counted before.
        expired: the messages that are too old for a position.
        gaps: the missing pages.
        moves: the new positions of the histories.
    """

    def __init__(self, publications: list[Publication], using: str) -> None:
        self.fresh: list[Publication] = []
        self.expired: list[Publication] = []
        self.gaps: list[Gap] = []
        self.repeats = 0
        self.moves: list[Move] = []
        if publications:
            # One statement. A process that counts the same concurrently loses the compare-and-set.
            incarnations = {page.incarnation for page in publications}
            known = registry.positions(using).among(SOURCE, incarnations)
            before = {part: int(at.position) for part, at in known.items()}
            self.moves = list(
                self._sorted(publications, before, registry.kept(SqlBatches, using).now())
            )

    def _sorted(
        self, publications: list[Publication], before: Mapping[str, int], now: datetime
    ) -> Iterator[Move]:
        reached = dict(before)
        for page in publications:
            at = reached.get(page.incarnation, 0)
            if page.number <= at:
                self.repeats += 1
                continue
            # After its position was pruned, a history can begin with any number.
            is_old = not now - OLDEST <= page.at <= now + (REMEMBERED - OLDEST)
            if page.number > at + 1 and (at or not is_old):
                self.gaps.append(Gap(page.incarnation, at, page.number))
            (self.expired if is_old else self.fresh).append(page)
            reached[page.incarnation] = page.number
        for part, number in reached.items():
            was = before.get(part)
            if number != was:
                yield Move(SOURCE, part, "" if was is None else str(was), str(number))

    def tell(self, landed: Landed) -> None:
        """Record expired and missing messages, in the transaction that moves past them."""
        for page in self.expired:
            landed.quarantine("expired", page.amounts, [page.name])
        for gap in self.gaps:
            between = str(gap.after), str(gap.before)
            called = f"buffer {gap.incarnation}"
            landed.incidents.append(write_lost(called, *between, landed.source, landed.using))


class Beyond:
    """Reports positions beyond the end of a stream: once per process, once in the database.

    Args:
        source: the name of the stream in incidents.
        using: the database.
    """

    def __init__(self, source: str, using: str) -> None:
        self._source = source
        self._using = using
        # The reported position of each part.
        self._told: dict[str, str] = {}

    def tell(self, part: str, position: str, end: str) -> list[str]:
        """Return the text about a part, unless it was returned before. Call it in a landing."""
        if self._told.get(part) == position:
            return []
        self._told[part] = position
        # Without the end, which moves: a restarted process must not write a second incident.
        detail = {"part": part, "position": position, "reason": "beyond the end"}
        rows = CounterIncident._base_manager.using(self._using)
        kind = CounterIncident.Kind.LOST
        if not rows.filter(kind=kind, subject=self._source, detail=detail).exists():
            record(kind, self._source, detail, self._using)
        return [
            f"{part}: the position {position} is beyond the end {end or '(it is empty)'}: another "
            "stream has taken its place. Nothing of it is counted until its position is deleted"
        ]


def write_lost(called: str, after: str, before: str, source: str, using: str) -> str:
    """Record that a range is missing and wasn't counted; return a text about it.

    Args:
        called: the name of the part or history, for people; its last word is in the incident.
        after: the last message that was counted, or is known.
        before: the first existing message after the range.
        source: the name of the stream in incidents.
        using: the database, in the transaction that moves past the range.
    """
    detail = {"part": called.split(" ")[-1], "after": after, "before": before}
    record(CounterIncident.Kind.LOST, source, detail, using)
    return f"lost: {called} after {after}"
