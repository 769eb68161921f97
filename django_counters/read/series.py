"""Counts over time and by tag, as people ask for them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, tzinfo
from itertools import repeat
from typing import Any, Generic, Self, TypeAlias, TypeVar

from django.db import models

from django_counters import clock
from django_counters.exceptions import InvalidKey, InvalidPeriod, InvalidTags
from django_counters.read import occurrences, uniques
from django_counters.read.asked import SeriesAmounts, SeriesSelection
from django_counters.read.cells import check_tags, check_values
from django_counters.read.found import found, starts_of
from django_counters.read.occurrences import Occurred, OccurrencePoint
from django_counters.read.points import Bucket, Point, Split, order_of, points_of
from django_counters.read.sources import Records, as_of, of_keys, of_namespace, of_records
from django_counters.read.spans import (
    DEFAULT_SPANS,
    Span,
    check_between,
    check_last,
    check_period,
    check_zone,
    moment_of,
)
from django_counters.read.uniques import Distinct, UniquePoint
from django_counters.sketches import Sketch
from django_counters.tables.total import TotalField
from django_counters.twins import twin
from django_counters.types import check_key

#: A value of a tag: a text, or an integer, which is counted as its text.
Value = str | int | None


_Row = TypeVar("_Row")
_Total = TypeVar("_Total")
# Within the class `list` is its own.
_Rows: TypeAlias = list[_Row]


@dataclass(frozen=True, slots=True, repr=False)
class _Asking(Generic[_Row, _Total]):
    """The question, step by step. Each step gives another object; none asks the database."""

    _asked: SeriesSelection

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self._asked.source.label}>"

    def __iter__(self) -> Iterator[_Row]:
        return iter(self.list())

    def per(self, period: str) -> Self:
        """By minute, hour, day, week (from Monday) or month. Without it, all of the time is one.

        Raises:
            InvalidPeriod: there is no such period.
        """
        return self._timed(by=check_period(period))

    def last(self, time: int | str) -> Self:
        """The last periods, the present one included (``30``), or a time back from now (``"7d"``).

        A time is a number and ``m`` (minutes), ``h`` (hours of sixty minutes), ``d`` (days of 24
        hours) or ``w``. It begins with the whole period in which its first moment is.

        Raises:
            InvalidPeriod: it is neither, is zero, or is more than 10,000 periods.
        """
        given = check_last(time)
        number, length = (None, given) if isinstance(given, timedelta) else (given, None)
        return self._timed(number=number, length=length, since=None, until=None)

    def between(self, since: datetime, until: datetime | None = None) -> Self:
        """From one moment on, and up to another one, or to now.

        With `per`, from the period that ``since`` is in, to the last one that begins before
        ``until``. Without, exactly: a stored period has to begin at both. A moment without a time
        zone is of the current one.

        Raises:
            InvalidPeriod: ``until`` is not the later one, or one is no datetime.
        """
        start, end = check_between(since, until)
        return self._timed(number=None, length=None, since=start, until=end)

    def tz(self, zone: tzinfo | str) -> Self:
        """By the clocks of a time zone, ``"Europe/Berlin"``; without it, of that which is stored.

        Raises:
            InvalidPeriod: there is no such zone.
        """
        return self._timed(zone=check_zone(zone))

    def partial(self) -> Self:
        """Return the stored counts instead of raising `HistoryNotKept`.

            Post.views.series.per("month").partial().list()

        A period that was declared a moment ago then has the counts since, and one that isn't kept
        reads as zero. Without `HistoryNotKept` the result is the same.
        """
        return self._timed(partial=True)

    def where(self, /, **tags: Value | Iterable[Value]) -> Self:
        """Only what was counted with a value of a tag, or with any of several; None for without.

        Raises:
            InvalidTags: a tag is not declared, or this cannot be a value.
            UnsupportedSeries: the counters are not counted by period.
        """
        asked = self._asked
        check_tags(asked.source, tags)
        more = tuple((name, check_values(asked.source, name, tags[name])) for name in tags)
        return replace(self, _asked=replace(asked, where=(*asked.where, *more)))

    def using(self, alias: str) -> Self:
        """From another database, such as a replica."""
        return replace(self, _asked=replace(self._asked, using=alias))

    @property
    def selection(self) -> SeriesSelection:
        """The counters, the time and the tags, for apps that answer it in another way."""
        return self._asked

    @property
    def as_of(self) -> datetime | None:
        """The present moment: reads after it contain all counts before it.

        Of cached counters a moment before the last flush; None where none is known. The database
        is asked for it.
        """
        source = self._asked.source
        return as_of(source, source.database(self._asked.using))

    def starts(self) -> _Rows[datetime]:
        """When the periods begin, and at last when the last one ends; aware. Reads no counts.

        Raises:
            InvalidPeriod, HistoryNotKept: as `list`.
        """
        self._check_time()
        return [*starts_of(self._asked)]

    def list(self) -> _Rows[_Row]:
        """The rows, in one statement."""
        self._check_time()
        return self._rows(found(self._asked), "")

    def each(self) -> dict[Any, _Rows[_Row]]:
        """The rows of each counter, by its key, or by the primary key of its record.

        Of all records of a field, those that were ever counted are there.
        """
        self._check_time()
        told = found(self._asked, each=True)
        return {name: self._rows(told, key) for key, name in told.names.items()}

    def total(self) -> _Total:
        """The count of all of the time; without a time, of all that is kept."""
        raise NotImplementedError

    alist = twin(list)
    aeach = twin(each)
    atotal = twin(total)

    def _rows(self, told: SeriesAmounts, key: str) -> _Rows[_Row]:
        raise NotImplementedError

    def _timed(self, **changes: Any) -> Self:
        span: Span = replace(self._asked.span, **changes)
        return replace(self, _asked=replace(self._asked, span=span))

    def _check_time(self) -> None:
        if self._asked.span.is_open and self._asked.span.by is None:
            raise InvalidPeriod(period=None, known="say which time: per(), last() or between()")


class Series(_Asking[Point, int]):
    """The counts over time. Lazy: `list`, `total`, `each` and a loop ask the database.

        Counter.objects.series("signups:site").per("day").last(30).list()

    Raises:
        UnsupportedSeries: nothing tells when the counters changed; it says which option does.
        InvalidPeriod: the stored periods begin at other times than those that are asked for.
        HistoryNotKept: counts of that time are not kept; `partial` reads the rest.
        CounterUnavailable: the database cannot be reached.
    """

    __slots__ = ()

    def by(self, *tags: str) -> Splits:
        """Apart for each value of a tag, or each combination of values of several.

        Raises:
            InvalidTags: one is not declared, or none is given.
            UnsupportedSeries: the counters are not counted by period.
        """
        source = self._asked.source
        if not tags:
            raise InvalidTags(tags=(), key=source.label, reason="by() needs the name of one")
        return Splits(replace(self._asked, tags=check_tags(source, tags)))

    def total(self) -> int:
        """The count of all of the time; without a time, of all that is kept."""
        return sum(sum(row) for row in found(self._asked, summed=True).amounts.values())

    def unique(self) -> Distinct:
        """How many distinct actors there were in all of the time, and with which error.

        An actor of several of its periods, or of several of the counters, is one. Exact up to 512
        actors in each stored period, and in all; else estimated with a standard error of 0.81 %. Of
        cached counters those count that have landed: see `as_of`.

        Raises:
            UnsupportedSeries: the counters declare no ``unique`` periods.
        """
        return uniques.found(self._asked).get(("", ()), Distinct.of(Sketch()))

    def uniques(self) -> _Rows[UniquePoint]:
        """The same for each period. Their sum is more than `unique`, where an actor came again."""
        self._check_time()
        return uniques.points(self._asked)[()]

    def unique_each(self) -> dict[Any, Distinct]:
        """`unique` of each counter, by its key or by the primary key of its record, in two queries.

        Of all records of a field, those that were ever counted are there.

        Raises:
            UnsupportedSeries: the counters declare no ``unique`` periods.
        """
        told, source = uniques.found(self._asked, each=True), self._asked.source
        using, nobody = source.database(self._asked.using), Distinct.of(Sketch())
        names = source.names(using, {key for key, _ in told})
        return {name: told.get((key, ()), nobody) for key, name in names.items()}

    def unique_starts(self) -> _Rows[datetime]:
        """When the periods of `uniques` begin, and at last when the last one ends. Reads no sets.

        Raises:
            UnsupportedSeries, InvalidPeriod, HistoryNotKept: as `uniques`.
        """
        self._check_time()
        return [*uniques.starts(self._asked)]

    def unique_sets(self, most: int) -> int:
        """How many stored sets `unique` and `uniques` unite; about ``2 * most`` for more.

        Raises:
            UnsupportedSeries, InvalidPeriod, HistoryNotKept: as `unique`.
        """
        return max(
            uniques.stored(self._asked, summed=summed, most=most)
            for summed in ((True,) if self._asked.span.by is None else (True, False))
        )

    aunique = twin(unique)
    aunique_each = twin(unique_each)
    auniques = twin(uniques)

    def occurred(self) -> Occurred:
        """How often the counters were changed in all of the time, and the mean of the changes.

        Raises:
            UnsupportedSeries: the counters declare no ``occurrences``.
            InvalidPeriod, HistoryNotKept: as `list`.
        """
        return occurrences.found(self._asked).get((), Occurred(0, 0))

    def occurrences(self) -> _Rows[OccurrencePoint]:
        """The same for each period: how often, by how much, and the mean, in one statement."""
        self._check_time()
        return occurrences.points(self._asked)

    aoccurred = twin(occurred)
    aoccurrences = twin(occurrences)

    def _rows(self, told: SeriesAmounts, key: str) -> list[Point]:
        return points_of(told.starts, told.amounts.get((key, ())))


class Splits(_Asking[Split, dict[Any, int]]):
    """The counts over time, by tag: `Split` after `Split`, the largest first."""

    __slots__ = ()

    @property
    def tags(self) -> tuple[str, ...]:
        """By which tags."""
        return self._asked.tags

    def total(self) -> dict[Any, int]:
        """The counts of all of the time, by value, the largest first.

        Of several tags the values are a tuple.
        """
        told = found(self._asked, summed=True).amounts
        sums = {combination: sum(row) for (_, combination), row in told.items()}
        ordered = sorted(sums.items(), key=lambda item: order_of(item[1], item[0]))
        return {one[0] if len(one) == 1 else one: amount for one, amount in ordered}

    def unique(self) -> dict[Any, Distinct]:
        """How many distinct actors there were in all of the time, by value, the most first.

        Raises:
            UnsupportedSeries: the counters declare no ``unique`` periods.
        """
        told = uniques.found(self._asked)
        ordered = sorted(told.items(), key=lambda item: order_of(item[1], item[0][1]))
        return {one[0] if len(one) == 1 else one: number for (_, one), number in ordered}

    aunique = twin(unique)

    def occurred(self) -> dict[Any, Occurred]:
        """How often they were changed in all of the time, by value, the most often first.

        Raises:
            UnsupportedSeries: the counters declare no ``occurrences``.
        """
        told = occurrences.found(self._asked)
        ordered = sorted(told.items(), key=lambda item: order_of(item[1].number, item[0]))
        return {one[0] if len(one) == 1 else one: occurred for one, occurred in ordered}

    aoccurred = twin(occurred)

    def _rows(self, told: SeriesAmounts, key: str) -> list[Split]:
        rows = [
            Split(dict(zip(self._asked.tags, one, strict=True)), points, sum(row))
            for (of, one), row in told.amounts.items()
            if of == key
            for points in [tuple(points_of(told.starts, row))]
        ]
        return sorted(rows, key=lambda row: order_of(row.total, tuple(row.tags.values())))


class RecordSeries(Series):
    """The series of a field: of all records together, as long as none are chosen."""

    __slots__ = ()

    def of(self, records: models.QuerySet[Any] | Iterable[models.Model] | models.Model) -> Series:
        """Of some records: those of a queryset, or some that are loaded.

        Raises:
            InvalidKey: something else is among them.
            UnsavedInstance: one has no row yet.
        """
        source = self._asked.source
        assert isinstance(source, Records)
        chosen = of_records(source.field, source.model, records)
        return Series(replace(self._asked, source=chosen))


def series(keys: object, using: str | None = None, namespace: object = None) -> Series:
    """The series of a named counter, of several, or of all of a namespace."""
    if namespace is None:
        return Series(SeriesSelection(of_keys(keys), using=using))
    if keys is not None:
        raise InvalidKey(key=keys, reason="a series is of keys or of a namespace, not of both")
    return Series(SeriesSelection(of_namespace(namespace), using=using))


def series_of(field: TotalField, record: models.Model) -> Series:
    """The series of one record."""
    return Series(SeriesSelection(Records(field, type(record), (record,))))


def series_of_all(field: TotalField, model: type[models.Model]) -> RecordSeries:
    """The series of all records of a model with a field; of a child, those of its parent's."""
    inherits = model._meta.concrete_model is not field.model._meta.concrete_model
    chosen = model._base_manager.all() if inherits else None
    return RecordSeries(SeriesSelection(Records(field, model, chosen)))


def history(
    key: object,
    by: str,
    since: datetime | None,
    until: datetime | None,
    zone: tzinfo | None,
    using: str | None,
) -> list[Bucket]:
    """The same, as buckets; where no time is said, of the last one."""
    asked = series(check_key(key), using).per(by)
    end = moment_of(until) if until else clock.utc()
    start = moment_of(since) if since else end - DEFAULT_SPANS[by]
    if start >= end:
        return []
    asked = asked.between(start, end)
    told = found((asked if zone is None else asked.tz(zone))._asked)
    points = points_of(told.starts, told.amounts.get(("", ())))
    numbers = told.entries or repeat(None)
    return [
        Bucket(p.start, p.end, p.value, entries)
        for p, entries in zip(points, numbers, strict=False)
    ]
