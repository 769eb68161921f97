"""How many distinct actors there were: unions of the sets of the periods that are asked for."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import ItemsView, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from itertools import pairwise
from typing import Self

from django_counters import clock
from django_counters.exceptions import UnsupportedSeries
from django_counters.measure import MEMBER, Measure
from django_counters.read.asked import Asked, Combination
from django_counters.read.cells import chosen, combinations, planned_for
from django_counters.read.sources import Source
from django_counters.sketches import Sketch, union
from django_counters.stores.sql.session import Session
from django_counters.tables import CounterMember, CounterUnique

#: The key of a counter (empty where all are one), the values of tags, and which period it is.
_Where = tuple[str, Combination, int]


class Distinct(int):
    """How many distinct actors there were: an int that says how sure it is.

    Attributes:
        error: its standard error, as a part of it: 0.0 where it is exact, else 0.0081.
    """

    error: float

    @classmethod
    def of(cls, sketch: Sketch) -> Self:
        """How many a set has."""
        number = cls(sketch.count())
        number.error = sketch.error
        return number

    @property
    def is_exact(self) -> bool:
        """Whether the number is exact: sets of 512 actors and fewer are exact."""
        return self.error == 0.0


@dataclass(frozen=True, slots=True)
class UniquePoint:
    """One period of a series of distinct actors.

    Attributes:
        start: when it begins.
        end: when the next one does.
        value: how many there were in it; zero where none was.
    """

    start: datetime
    end: datetime
    value: Distinct


def found(asked: Asked, *, each: bool = False) -> Mapping[tuple[str, Combination], Distinct]:
    """How many there were in all of the time, by counter if ``each`` is, and by tags.

    Raises:
        UnsupportedSeries: no distinct actors are counted.
        InvalidPeriod, HistoryNotKept, CounterUnavailable: as for other series.
    """
    _, sets = _sets(asked, summed=True, each=each)
    return {(key, values): Distinct.of(union(parts)) for (key, values, _), parts in sets.items()}


def points(asked: Asked) -> Mapping[Combination, list[UniquePoint]]:
    """How many there were in each period, by tags.

    Raises:
        UnsupportedSeries, InvalidPeriod, HistoryNotKept, CounterUnavailable: as `found`.
    """
    starts, sets = _sets(asked, summed=False, each=False)
    periods = [(clock.shown(start), clock.shown(end)) for start, end in pairwise(starts)]
    return {
        values: [
            UniquePoint(*period, Distinct.of(union(sets.get(("", values, number), ()))))
            for number, period in enumerate(periods)
        ]
        for values in {values for _, values, _ in sets} or ({()} if not asked.tags else set())
    }


def starts(asked: Asked) -> Sequence[datetime]:
    """Where the periods begin, and where the last one ends: reads no sets.

    Raises:
        UnsupportedSeries, InvalidPeriod, HistoryNotKept, CounterUnavailable: as `found`.
    """
    measure, using = measured(asked.source), asked.source.database(asked.using)
    with Session(using).translated():
        _, planned = planned_for(asked, measure, MEMBER, using, summed=False)
    return [clock.shown(start) for start in planned.starts]


def measured(source: Source) -> Measure:
    """The declaration, where distinct actors are counted.

    Raises:
        UnsupportedSeries: they are not.
    """
    measure = source.measure
    if measure is None or not measure.unique:
        raise UnsupportedSeries(key=source.label, reason="it declares no unique periods")
    return measure


def _sets(
    asked: Asked, *, summed: bool, each: bool
) -> tuple[Sequence[datetime], Mapping[_Where, list[Sketch]]]:
    """Where the periods begin, and the sets that are to be united for each of them."""
    measure, using = measured(asked.source), asked.source.database(asked.using)
    with Session(using).translated():
        stored, planned = planned_for(asked, measure, MEMBER, using, summed=summed)
        if stored is None:
            return planned.starts, {}
        number = cache(lambda start: bisect_right(planned.starts, clock.meant(start)) - 1)
        combination = combinations(asked, stored)
        sets: dict[_Where, list[Sketch]] = {}

        def keep(key: str, start: datetime, tags: str, sketch: Sketch) -> None:
            values = combination(tags) if asked.tags else ()
            where = key if each else "", values, 0 if summed else number(start)
            sets.setdefault(where, []).append(sketch)

        # First: one that is put into its set meanwhile is then met there again, and is not missed.
        members = chosen(CounterMember, asked, stored, planned, using)
        for (key, start, tags), waiting in _waiting(members.order_by().values_list(*_MEMBER)):
            keep(key, start, tags, Sketch.of(waiting))
        rows = chosen(CounterUnique, asked, stored, planned, using).order_by()
        for key, start, tags, kind, body in rows.values_list(*_OF, "kind", "body"):
            keep(key, start, tags, Sketch(kind, bytes(body)))
    return planned.starts, sets


_OF = ("key", "start", "tags")
_MEMBER = (*_OF, "member")


def _waiting(
    rows: Iterable[tuple[str, datetime, str, int]],
) -> ItemsView[tuple[str, datetime, str], set[int]]:
    """Members that wait, by set."""
    found: dict[tuple[str, datetime, str], set[int]] = {}
    for key, start, tags, member in rows:
        found.setdefault((key, start, tags), set()).add(member)
    return found.items()
