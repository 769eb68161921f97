"""The number of distinct actors: unions of the sets of periods."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Collection, ItemsView, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from itertools import pairwise
from typing import Any, Self

from django.db import models

from django_counters import clock
from django_counters.contrib.series import Series, Splits
from django_counters.contrib.series.amounts import chosen, combinations, planned_for
from django_counters.contrib.series.selection import Combination, SeriesSelection, order_of
from django_counters.contrib.series.sources import CellSource
from django_counters.contrib.uniques.models import CounterMember, CounterUnique
from django_counters.contrib.uniques.options import MEMBER
from django_counters.contrib.uniques.sketches import Sketch, Union
from django_counters.errors import UnsupportedSeries
from django_counters.measure import Measure
from django_counters.stores.sql.session import Session
from django_counters.twins import twin

#: Sets in memory at once.
PAGE = 256
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


def count(series: Series) -> Distinct:
    """Return the number of distinct actors in all of a series' time, and its standard error.

        uniques.count(series.of("visits:site").last("30d"))

    An actor of several periods, or of several counters, counts once. The number is exact up to 512
    actors in each stored period, and in all; else it is an estimate with a standard error of
    0.81 %. For cached counters it is as of the last flush: see `as_of` of the series.

    Raises:
        UnsupportedSeries: the counters declare no ``unique`` periods.
        InvalidPeriod, HistoryNotKept, CounterUnavailable: as for other series.
    """
    return _counts(series.selection).get(("", ()), Distinct.of(Sketch()))


def count_by(splits: Splits) -> dict[Any, Distinct]:
    """Return the number of distinct actors by value of a tag, the largest first.

        uniques.count_by(series.of("visits:site").last("30d").by("country"))

    For several tags, the values are a tuple.

    Raises:
        UnsupportedSeries, InvalidPeriod, HistoryNotKept, CounterUnavailable: as `count`.
    """
    counts = _counts(splits.selection)
    ordered = sorted(counts.items(), key=lambda item: order_of(item[1], item[0][1]))
    return {one[0] if len(one) == 1 else one: number for (_, one), number in ordered}


def each(series: Series) -> dict[Any, Distinct]:
    """Return `count` of each counter, by its key or its record's primary key, in two queries.

    For all records of a field, those that were ever counted are there.

    Raises:
        UnsupportedSeries, InvalidPeriod, HistoryNotKept, CounterUnavailable: as `count`.
    """
    asked = series.selection
    counts, nobody = _counts(asked, each=True), Distinct.of(Sketch())
    names = asked.source.names(asked.source.database(asked.using), {key for key, _ in counts})
    return {name: counts.get((key, ()), nobody) for key, name in names.items()}


def points(series: Series) -> list[UniquePoint]:
    """Return the number of distinct actors in each period.

    An actor of several periods is in each of them, so the sum is more than `count`.

    Raises:
        UnsupportedSeries, InvalidPeriod, HistoryNotKept, CounterUnavailable: as `count`.
    """
    series.check_time()
    bounds, numbers = _numbers(series.selection, summed=False, each=False)
    nobody = Distinct.of(Sketch())
    periods = [(clock.shown(start), clock.shown(end)) for start, end in pairwise(bounds)]
    return [
        UniquePoint(*period, numbers.get(("", (), number), nobody))
        for number, period in enumerate(periods)
    ]


acount, acount_by, aeach, apoints = twin(count), twin(count_by), twin(each), twin(points)


def starts(series: Series) -> list[datetime]:
    """Return the starts of the periods of `points`, and the end of the last one. Reads no sets.

    Raises:
        UnsupportedSeries, InvalidPeriod, HistoryNotKept, CounterUnavailable: as `count`.
    """
    series.check_time()
    asked = series.selection
    measure, using = measured(asked.source), asked.source.database(asked.using)
    with Session(using).translated():
        _, planned = planned_for(asked, measure, MEMBER, using, summed=False)
    return [clock.shown(start) for start in planned.starts]


def stored_sets(series: Series, most: int) -> int:
    """Return how many stored sets `count` and `points` unite; about ``2 * most`` for more.

    Raises:
        UnsupportedSeries, InvalidPeriod, HistoryNotKept, CounterUnavailable: as `count`.
    """
    asked = series.selection
    ways = (True,) if asked.span.by is None else (True, False)
    return max(_stored(asked, summed=summed, most=most) for summed in ways)


def _counts(
    asked: SeriesSelection, *, each: bool = False
) -> Mapping[tuple[str, Combination], Distinct]:
    """Return the numbers of all of the time, by counter if ``each`` is, and by tags."""
    _, numbers = _numbers(asked, summed=True, each=each)
    return {(key, values): number for (key, values, _), number in numbers.items()}


def _stored(asked: SeriesSelection, *, summed: bool, most: int) -> int:
    """Return how many sets and pending members a read unites, up to ``most`` of each table."""
    measure, using = measured(asked.source), asked.source.database(asked.using)
    with Session(using).translated():
        present, planned = planned_for(asked, measure, MEMBER, using, summed=summed)
        if present is None:
            return 0
        tables = CounterMember, CounterUnique
        rows = (chosen(table, asked, present, planned, using) for table in tables)
        return sum(len(part.order_by().values_list("period")[:most]) for part in rows)


def measured(source: CellSource) -> Measure:
    """The declaration, where distinct actors are counted.

    Raises:
        UnsupportedSeries: they are not.
    """
    measure = source.measure
    if measure is None or not measure.declared(MEMBER.option):
        raise UnsupportedSeries(key=source.label, reason="it declares no unique periods")
    return measure


def _numbers(
    asked: SeriesSelection, *, summed: bool, each: bool
) -> tuple[Sequence[datetime], Mapping[_Where, Distinct]]:
    """Return where the periods begin, and the size of each union of sets.

    Sets come by pages, and a union goes once it is counted: a set has up to 16 KiB.
    """
    measure, using = measured(asked.source), asked.source.database(asked.using)
    with Session(using).translated():
        stored, planned = planned_for(asked, measure, MEMBER, using, summed=summed)
        if stored is None:
            return planned.starts, {}
        number = cache(lambda start: bisect_right(planned.starts, clock.meant(start)) - 1)
        combination = combinations(asked, stored)
        unions: dict[_Where, Union] = defaultdict(Union)

        def where(key: str, start: datetime, tags: str) -> _Where:
            values = combination(tags) if asked.tags else ()
            return key if each else "", values, 0 if summed else number(start)

        # First: one that is put into its set meanwhile is then met there again, and is not missed.
        members = chosen(CounterMember, asked, stored, planned, using)
        for of, waiting in _waiting(members.order_by().values_list(*_MEMBER)):
            unions[where(*of)].add(Sketch.of(waiting))

        numbers: dict[_Where, Distinct] = {}
        for page, complete in _pages(chosen(CounterUnique, asked, stored, planned, using), where):
            for key, start, tags, kind, body in page:
                unions[where(key, start, tags)].add(Sketch(kind, bytes(body)))
            for at in complete:
                numbers[at] = Distinct.of(unions.pop(at, Union()).sketch())
        numbers |= {at: Distinct.of(union.sketch()) for at, union in unions.items()}
    return planned.starts, numbers


def _pages(
    rows: models.QuerySet[Any, Any], where: Callable[[str, datetime, str], _Where]
) -> Iterator[tuple[Iterable[tuple[Any, ...]], Collection[_Where]]]:
    """Yield sets page by page, each with the unions that no later page adds to."""
    few = list(rows.order_by().values_list(*_SET)[: PAGE + 1])
    if len(few) <= PAGE:
        yield few, ()
        return
    del few
    names: dict[_Where, list[tuple[Any, ...]]] = defaultdict(list)
    for name in rows.order_by().values_list("measure_id", "key", "period", "start", "tags"):
        _, key, _, start, tags = name
        names[where(key, start, tags)].append(name)
    ordered = [(at, name) for at, of_it in names.items() for name in of_it]
    for begin in range(0, len(ordered), PAGE):
        page = ordered[begin : begin + PAGE]
        sets = rows.filter(pk__in=[name for _, name in page])
        # The last union may go on in the next page.
        yield sets.values_list(*_SET), {at for at, _ in page} - {page[-1][0]}


_OF = ("key", "start", "tags")
_MEMBER = (*_OF, "member")
_SET = (*_OF, "kind", "body")


def _waiting(
    rows: Iterable[tuple[str, datetime, str, int]],
) -> ItemsView[tuple[str, datetime, str], set[int]]:
    """Members that wait, by set."""
    found: dict[tuple[str, datetime, str], set[int]] = {}
    for key, start, tags, member in rows:
        found.setdefault((key, start, tags), set()).add(member)
    return found.items()
