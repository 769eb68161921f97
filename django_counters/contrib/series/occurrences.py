"""How often counters were changed, and by how much: both in one statement, so that they agree."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from itertools import pairwise
from typing import Any

from django.db import models

from django_counters import clock
from django_counters.contrib.series.amounts import chosen, combinations, planned_for
from django_counters.contrib.series.models import CounterCell, CounterOccurrence
from django_counters.contrib.series.options import OCCURRENCE
from django_counters.contrib.series.selection import Combination, SeriesSelection
from django_counters.contrib.series.sources import Cells, CellSource
from django_counters.errors import UnsupportedSeries
from django_counters.measure import Measure
from django_counters.stores.sql.session import Session

#: How often and by how much, by the values of tags and by which period it is.
_Pairs = dict[tuple[Combination, int], list[int]]


@dataclass(frozen=True, slots=True)
class Occurred:
    """How often counters were changed, and by how much.

    Attributes:
        number: how many changes there were, decrements and adjustments too.
        value: the sum of them.
    """

    number: int
    value: int

    @property
    def mean(self) -> float | None:
        """The mean of the changes; None where there was none."""
        return self.value / self.number if self.number else None


@dataclass(frozen=True, slots=True)
class OccurrencePoint(Occurred):
    """The same of one period of a series.

    Attributes:
        start: when it begins.
        end: when the next one does.
    """

    start: datetime
    end: datetime


def found(selection: SeriesSelection) -> Mapping[Combination, Occurred]:
    """How often in all of the time, by tags.

    Raises:
        UnsupportedSeries: no occurrences are counted.
        InvalidPeriod, HistoryNotKept, CounterUnavailable: as for other series.
    """
    _, pairs = _pairs(selection, summed=True)
    return {values: Occurred(number, value) for (values, _), (number, value) in pairs.items()}


def points(selection: SeriesSelection) -> list[OccurrencePoint]:
    """How often in each period.

    Raises:
        UnsupportedSeries, InvalidPeriod, HistoryNotKept, CounterUnavailable: as `found`.
    """
    starts, pairs = _pairs(selection, summed=False)
    periods = pairwise(map(clock.shown, starts))
    nothing = [0, 0]
    told = (pairs.get(((), place), nothing) for place in range(len(starts) - 1))
    return [
        OccurrencePoint(number, value, start, end)
        for (number, value), (start, end) in zip(told, periods, strict=True)
    ]


def _measured(source: CellSource) -> Measure:
    measure = source.measure
    if measure is None or not measure.declared(OCCURRENCE.option):
        raise UnsupportedSeries(key=source.label, reason="it declares no occurrences")
    return measure


def _pairs(selection: SeriesSelection, *, summed: bool) -> tuple[Sequence[datetime], _Pairs]:
    """Where the periods begin, and how often and by how much in each of them."""
    measure, using = _measured(selection.source), selection.source.database(selection.using)
    pairs: _Pairs = {}
    with Session(using).translated():
        stored, planned = planned_for(selection, measure, OCCURRENCE, using, summed=summed)
        if stored is None:
            # Nobody has counted.
            return planned.starts, pairs
        number = cache(lambda start: bisect_right(planned.starts, clock.meant(start)) - 1)
        combination = combinations(selection, stored)
        columns = (() if summed else ("start",)) + (("tags",) if selection.tags else ())
        tables = (CounterOccurrence, CounterCell)
        for place, *of, amount in _rows(
            [chosen(table, selection, stored, planned, using) for table in tables], columns
        ):
            where = combination(of[-1]) if selection.tags else (), 0 if summed else number(of[0])
            pairs.setdefault(where, [0, 0])[place] += amount
    return planned.starts, pairs


def _rows(parts: Sequence[Cells], columns: Sequence[str]) -> Iterator[tuple[Any, ...]]:
    """The place of a part, columns, and the sum of each group of its rows: in one statement."""
    first, *others = (
        # All are of one period, so that there is a column to group by.
        part.order_by()
        .values("period", *columns)
        .annotate(amount=models.Sum("value"), place=models.Value(place))
        .values_list("place", *columns, "amount")
        for place, part in enumerate(parts)
    )
    yield from first.union(*others, all=True)
