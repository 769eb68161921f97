"""The parts of a series: periods, and rows of them by tag."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise

from django_counters import clock
from django_counters.read.asked import Combination


@dataclass(frozen=True, slots=True)
class Point:
    """One period of a series.

    Attributes:
        start: when it begins.
        end: when the next one does.
        value: the count of the period.
    """

    start: datetime
    end: datetime
    value: int


@dataclass(frozen=True, slots=True)
class Bucket:
    """The count of one counter in one period.

    Attributes:
        start: when the period begins.
        end: when the next one begins.
        change: the count of the period.
        entries: how many entries of a ledger there are; None where they are not what was read.
    """

    start: datetime
    end: datetime
    change: int
    entries: int | None


@dataclass(frozen=True, slots=True)
class Split:
    """The periods of the counts with the same values of some tags.

    Attributes:
        tags: the values by the names of the tags: ``"~"`` for those that are not counted apart,
            None where none was given.
        points: one for each period.
        total: the sum of them.
    """

    tags: Mapping[str, str | None]
    points: tuple[Point, ...]
    total: int


def points_of(starts: Sequence[datetime], amounts: Sequence[int] | None) -> list[Point]:
    """A point for each period; zeros where nothing was counted."""
    values = amounts or [0] * (len(starts) - 1)
    shown = map(clock.shown, starts)
    return [Point(*pair, value) for pair, value in zip(pairwise(shown), values, strict=True)]


def order_of(amount: int, values: Combination) -> tuple[int, tuple[str, ...]]:
    """What orders rows by tag: the largest first."""
    return -amount, tuple(value or "" for value in values)
