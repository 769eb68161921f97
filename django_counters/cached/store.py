"""What cached counters ask of Redis and of the database, and what both answer."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import NamedTuple

from django_counters.errors import CounterError
from django_counters.types import Reading

# Where a cache compares, it is exact up to here.
LARGEST_SUM = 2**53 - 1
#: The age for who wants no totals.
NO_TOTALS = -1


class CellSearch(NamedTuple):
    """A page to look through for cells of discarded counters, which are in one slot."""

    counters: tuple[str, ...]
    generation: str
    cursor: str = "0"


class Lease(NamedTuple):
    """The right to fill in a total that was not known at a moment (milliseconds, by Redis)."""

    version: str
    moment: int


class CachedState(NamedTuple):
    """The state of one counter in a cache of pending increments.

    Attributes:
        total: the total; None where it is not known there.
        pending: the amount that waits.
        age: how long ago the total was asked for, in milliseconds.
        waits: where the total is not known, the amount that waits in each generation.
        lease: where it is not known, and was asked for, the right to fill it in.
        kept: where this caller is to ask for it before it is too old: that total, and its age.
        asked: where it is not known, whether another caller asks for it just now.
    """

    total: int | None
    pending: int
    age: int = 0
    waits: tuple[tuple[str, int], ...] = ()
    lease: Lease | None = None
    kept: tuple[int, int] | None = None
    asked: bool = False


class Added(NamedTuple):
    """The amounts added, and the refusals. In a cluster it may be some of both."""

    found: Mapping[str, CachedState]
    refused: Mapping[str, CounterError]


class CachedParts(NamedTuple):
    """The parts of one value, and how long ago its total was asked for, in milliseconds."""

    total: int
    pending: int
    age: int = 0
    exists: bool = True

    def reading(self, as_of: datetime, consistency: str) -> Reading:
        """What there was at a moment: the total is as old as what Redis knows of it."""
        moment = as_of - timedelta(milliseconds=self.age)
        return Reading(self.total + self.pending, self.total, self.pending, moment, consistency)
