"""Messages that buffers have published, of one page: each is counted once, by its number."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import NamedTuple

from django_counters.intake.beyond import write_lost
from django_counters.intake.landed import Landed
from django_counters.registry import registry
from django_counters.stores.base import Move
from django_counters.stores.sql.batches import OLDEST, REMEMBERED
from django_counters.write.landing import SOURCE
from django_counters.write.publication import Publication


class Gap(NamedTuple):
    """Pages of one history that are in no stream any more: after and before which numbers."""

    incarnation: str
    after: int
    before: int


class Histories:
    """Sorts messages of buffers by whether they were counted, when it is known how far those are.

    Attributes:
        fresh: those that no process has counted.
        repeats: how many were counted before.
        expired: those that are so old that it is not known.
        gaps: pages that should be there.
        moves: where the histories go.
    """

    def __init__(self, found: list[Publication], using: str) -> None:
        self.fresh: list[Publication] = []
        self.expired: list[Publication] = []
        self.gaps: list[Gap] = []
        self.repeats = 0
        self.moves: list[Move] = []
        if found:
            # One statement. A process that counts the same meanwhile loses the compare-and-set.
            known = registry.positions(using).among(SOURCE, {one.incarnation for one in found})
            before = {part: int(at.position) for part, at in known.items()}
            self.moves = list(self._sorted(found, before, registry.batches(using).now()))

    def _sorted(
        self, found: list[Publication], before: Mapping[str, int], now: datetime
    ) -> Iterator[Move]:
        reached = dict(before)
        for one in found:
            at = reached.get(one.incarnation, 0)
            if one.number <= at:
                self.repeats += 1
                continue
            # A history whose position is forgotten by now begins somewhere.
            is_old = not now - OLDEST <= one.at <= now + (REMEMBERED - OLDEST)
            if one.number > at + 1 and (at or not is_old):
                self.gaps.append(Gap(one.incarnation, at, one.number))
            (self.expired if is_old else self.fresh).append(one)
            reached[one.incarnation] = one.number
        for part, number in reached.items():
            was = before.get(part)
            if number != was:
                yield Move(SOURCE, part, "" if was is None else str(was), str(number))

    def tell(self, landed: Landed) -> None:
        """Write down what cannot be counted, in the transaction that moves past it."""
        for one in self.expired:
            landed.quarantine("expired", one.amounts, [one.name])
        for gap in self.gaps:
            between = str(gap.after), str(gap.before)
            called = f"buffer {gap.incarnation}"
            landed.incidents.append(write_lost(called, *between, landed.source, landed.using))
