"""Counts over time and by tag: `of` selects the counters, `Series` the time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, tzinfo
from itertools import repeat
from typing import Any, Generic, Self, TypeAlias, TypeVar

from django.db import models

from django_counters import clock
from django_counters.contrib.series import occurrences
from django_counters.contrib.series.amounts import (
    check_tags,
    check_values,
    read_amounts,
    read_starts,
)
from django_counters.contrib.series.guards import Quotas
from django_counters.contrib.series.occurrences import Occurred, OccurrencePoint
from django_counters.contrib.series.selection import (
    DEFAULT_SPANS,
    Bucket,
    Point,
    SeriesAmounts,
    SeriesSelection,
    Span,
    Split,
    check_between,
    check_last,
    check_period,
    check_zone,
    order_of,
    points_of,
)
from django_counters.contrib.series.sources import (
    Records,
    flushed_until,
    of_keys,
    of_namespace,
    of_records,
)
from django_counters.contrib.series.sql import used as used_periods
from django_counters.errors import InvalidKey, InvalidPeriod, InvalidTags
from django_counters.fields import CounterAttribute, CounterField
from django_counters.fields.values import Counting
from django_counters.twins import twin
from django_counters.types import check_key
from django_counters.write.changes import Change
from django_counters.write.records import ref_to

#: A value of a tag: a text, or an integer, which is counted as its text.
Value = str | int | None


_Row = TypeVar("_Row")
_Total = TypeVar("_Total")
# Within the class `list` is its own.
_Rows: TypeAlias = list[_Row]


@dataclass(frozen=True, slots=True, repr=False)
class _Query(Generic[_Row, _Total]):
    """A selection, narrowed step by step. Each step returns another object, and sends no query."""

    selection: SeriesSelection

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.selection.source.label}>"

    def __iter__(self) -> Iterator[_Row]:
        return iter(self.list())

    def per(self, period: str) -> Self:
        """Split the time by minute, hour, day, week (from Monday) or month.

        Raises:
            InvalidPeriod: there is no such period.
        """
        return self._timed(by=check_period(period))

    def last(self, time: int | str) -> Self:
        """Select the last periods, the present one included (``30``), or a time (``"7d"``).

        A time is a number and ``m`` (minutes), ``h`` (hours of sixty minutes), ``d`` (days of 24
        hours) or ``w``. It begins with the whole period that contains its first moment.

        Raises:
            InvalidPeriod: it is neither, is zero, or is more than 10,000 periods.
        """
        checked = check_last(time)
        number, length = (None, checked) if isinstance(checked, timedelta) else (checked, None)
        return self._timed(number=number, length=length, since=None, until=None)

    def between(self, since: datetime, until: datetime | None = None) -> Self:
        """Select the time from one moment up to another one, or to now.

        With `per`: from the period that contains ``since`` to the last one that begins before
        ``until``. Without: exactly, so a stored period must begin at both. A moment without a time
        zone is in the current one.

        Raises:
            InvalidPeriod: ``until`` isn't later, or one isn't a datetime.
        """
        start, end = check_between(since, until)
        return self._timed(number=None, length=None, since=start, until=end)

    def tz(self, zone: tzinfo | str) -> Self:
        """Use the clocks of a time zone: ``"Europe/Berlin"``. Default: the stored one.

        Raises:
            InvalidPeriod: there is no such zone.
        """
        return self._timed(zone=check_zone(zone))

    def partial(self) -> Self:
        """Return the stored counts instead of raising `HistoryNotKept`.

            series.of(Post.views).per("month").partial().list()

        A period that was declared a moment ago then has the counts since, and one that isn't kept
        reads as zero. Without `HistoryNotKept` the result is the same.
        """
        return self._timed(partial=True)

    def where(self, /, **tags: Value | Iterable[Value]) -> Self:
        """Select the counts with a value of a tag, or with any of several; None for none.

        Raises:
            InvalidTags: a tag isn't declared, or this can't be a value.
            UnsupportedSeries: the counters aren't counted by period.
        """
        source = self.selection.source
        check_tags(source, tags)
        more = tuple((name, check_values(source, name, tags[name])) for name in tags)
        where = (*self.selection.where, *more)
        return replace(self, selection=replace(self.selection, where=where))

    def using(self, alias: str | None) -> Self:
        """Read from another database, such as a replica; None: as the router says."""
        return replace(self, selection=replace(self.selection, using=alias))

    @property
    def as_of(self) -> datetime | None:
        """The present moment: reads after it contain all counts before it.

        For cached counters it is a moment before the last flush, which takes a query; None before
        the first flush.
        """
        source = self.selection.source
        return flushed_until(source, source.database(self.selection.using))

    def starts(self) -> _Rows[datetime]:
        """Return when the periods begin, and at last when the last one ends. Reads no counts.

        Raises:
            InvalidPeriod, HistoryNotKept: as `list`.
        """
        self.check_time()
        return [*read_starts(self.selection)]

    def list(self) -> _Rows[_Row]:
        """Return the rows, in one statement."""
        self.check_time()
        return self._rows(read_amounts(self.selection), "")

    def each(self) -> dict[Any, _Rows[_Row]]:
        """Return the rows of each counter, by its key, or by the primary key of its record.

        Without a selection of records, it contains those that were ever counted.
        """
        self.check_time()
        amounts = read_amounts(self.selection, each=True)
        return {name: self._rows(amounts, key) for key, name in amounts.names.items()}

    def total(self) -> _Total:
        """Return the count of the whole time; without a time, of all that is kept."""
        raise NotImplementedError

    alist = twin(list)
    aeach = twin(each)
    atotal = twin(total)

    def _rows(self, amounts: SeriesAmounts, key: str) -> _Rows[_Row]:
        raise NotImplementedError

    def _timed(self, **changes: Any) -> Self:
        span: Span = replace(self.selection.span, **changes)
        return replace(self, selection=replace(self.selection, span=span))

    def check_time(self) -> None:
        if self.selection.span.is_open and self.selection.span.by is None:
            raise InvalidPeriod(period=None, known="say which time: per(), last() or between()")


class Series(_Query[Point, int]):
    """Counts over time. Lazy: `list`, `total`, `each` and a loop send queries.

        series.of("signups:site").per("day").last(30).list()

    Raises:
        UnsupportedSeries: nothing is stored about when the counters changed; the error names the
            options that do.
        InvalidPeriod: the stored periods begin at other times than the selected ones.
        HistoryNotKept: counts of that time aren't kept; `partial` reads the rest.
        CounterUnavailable: the database can't be reached.
    """

    __slots__ = ()

    def by(self, *tags: str) -> Splits:
        """Split the counts by each value of a tag, or by each combination of values of several.

        Raises:
            InvalidTags: one isn't declared, or none is passed.
            UnsupportedSeries: the counters aren't counted by period.
        """
        source = self.selection.source
        if not tags:
            raise InvalidTags(tags=(), key=source.label, reason="by() needs the name of one")
        return Splits(replace(self.selection, tags=check_tags(source, tags)))

    def total(self) -> int:
        """Return the count of the whole time; without a time, of all that is kept."""
        return sum(sum(row) for row in read_amounts(self.selection, summed=True).amounts.values())

    def occurred(self) -> Occurred:
        """Return the number of changes in the whole time, and their mean.

        Raises:
            UnsupportedSeries: the counters declare no ``occurrences``.
            InvalidPeriod, HistoryNotKept: as `list`.
        """
        return occurrences.found(self.selection).get((), Occurred(0, 0))

    def occurrences(self) -> _Rows[OccurrencePoint]:
        """Return the number of changes in each period, their sum and mean, in one statement."""
        self.check_time()
        return occurrences.points(self.selection)

    aoccurred = twin(occurred)
    aoccurrences = twin(occurrences)

    def _rows(self, amounts: SeriesAmounts, key: str) -> list[Point]:
        return points_of(amounts.starts, amounts.amounts.get((key, ())))


class Splits(_Query[Split, dict[Any, int]]):
    """Counts over time, split by tag: the largest `Split` first."""

    __slots__ = ()

    @property
    def tags(self) -> tuple[str, ...]:
        """The names of the tags."""
        return self.selection.tags

    def total(self) -> dict[Any, int]:
        """Return the counts of the whole time, by value, the largest first.

        With several tags the keys are tuples.
        """
        amounts = read_amounts(self.selection, summed=True).amounts
        sums = {combination: sum(row) for (_, combination), row in amounts.items()}
        ordered = sorted(sums.items(), key=lambda item: order_of(item[1], item[0]))
        return {_name(values): amount for values, amount in ordered}

    def occurred(self) -> dict[Any, Occurred]:
        """Return the number of changes in the whole time, by value, the most often first.

        Raises:
            UnsupportedSeries: the counters declare no ``occurrences``.
        """
        changes = occurrences.found(self.selection)
        ordered = sorted(changes.items(), key=lambda item: order_of(item[1].number, item[0]))
        return {_name(values): occurred for values, occurred in ordered}

    aoccurred = twin(occurred)

    def _rows(self, amounts: SeriesAmounts, key: str) -> list[Split]:
        rows = [
            Split(dict(zip(self.selection.tags, values, strict=True)), points, sum(row))
            for (counter, values), row in amounts.amounts.items()
            if counter == key
            for points in [tuple(points_of(amounts.starts, row))]
        ]
        return sorted(rows, key=lambda row: order_of(row.total, tuple(row.tags.values())))


def _name(values: tuple[str | None, ...]) -> Any:
    """Return how results name a combination: by its value, or as a tuple for several tags."""
    return values[0] if len(values) == 1 else values


def of(
    counter: str | Iterable[str] | Counting | CounterAttribute | None = None,
    records: models.QuerySet[Any] | Iterable[models.Model] | models.Model | None = None,
    *,
    namespace: str | None = None,
) -> Series:
    """Return the series of a counter, or of several together. Sends no query.

        series.of("signups:site")
        series.of(namespace="views")
        series.of(post.views)
        series.of(Post.views, Post.objects.filter(author=author))

    A namespace or field must declare periods (``PER``, ``per``). Named counters in a ledger, or
    with ``HISTORY``, have a series without tags.

    Args:
        counter: a key, keys of one namespace, the value of a field, or a field of a model.
        records: which records of the field: a queryset, or instances. Default: all that were ever
            counted.
        namespace: all counters of a namespace, instead of ``counter``.

    Raises:
        InvalidKey: a key is invalid, none is passed, or ``counter`` and ``namespace`` both are; or
            a record is of another model.
        UnsupportedSeries: the keys are in several namespaces, or the namespace has no periods.
        UnsavedInstance: a record has no row yet. Raised by the read.
    """
    if namespace is not None:
        if counter is not None:
            reason = "a series is of keys or of a namespace, not of both"
            raise InvalidKey(key=counter, reason=reason)
        return Series(SeriesSelection(of_namespace(namespace)))
    if isinstance(counter, Counting):
        instance = counter._instance
        return Series(SeriesSelection(Records(counter._field, type(instance), (instance,))))
    # FieldTracker wraps the attribute, and hands on what it doesn't know.
    field: Any = getattr(counter, "field", None)
    if isinstance(field, CounterField):
        attribute: Any = counter
        if records is not None:
            return Series(SeriesSelection(of_records(field, attribute.model, records)))
        model = attribute.model
        # A child's records are some of its parent's.
        inherits = model._meta.concrete_model is not field.model._meta.concrete_model
        chosen = model._base_manager.all() if inherits else None
        return Series(SeriesSelection(Records(field, model, chosen)))
    return Series(SeriesSelection(of_keys(counter)))


def history(
    key: str,
    by: str = "hour",
    *,
    since: datetime | None = None,
    until: datetime | None = None,
    tz: tzinfo | None = None,
    using: str | None = None,
) -> list[Bucket]:
    """Return the changes of a named counter by period, with zeros and numbers of entries.

    A shorthand of `of`. The first period contains ``since``, the last one begins before ``until``
    (default: now). Without ``tz``, periods begin as they are stored; those of a ledger begin as in
    the current time zone. A day can have 23 or 25 hours. Entries count at the time of their token.

    Raises:
        UnsupportedSeries: nothing is stored about when the counter changed.
        HistoryNotKept: that time isn't kept; the error has the first moment that is.
        InvalidPeriod: there is no such period, there are more than 10,000, or the stored ones begin
            elsewhere.
    """
    series = of(check_key(key)).per(by)
    end = clock.check_moment(until) if until else clock.utc()
    start = clock.check_moment(since) if since else end - DEFAULT_SPANS[by]
    if start >= end:
        return []
    series = series.between(start, end)
    series = series if tz is None else series.tz(tz)
    amounts = read_amounts(replace(series.selection, using=using))
    points = points_of(amounts.starts, amounts.amounts.get(("", ())))
    numbers = amounts.entries or repeat(None)
    return [
        Bucket(p.start, p.end, p.value, entries)
        for p, entries in zip(points, numbers, strict=False)
    ]


@dataclass(frozen=True, slots=True)
class QuotaUsage:
    """The used part of a quota in the present period.

    Attributes:
        period: ``"minute"``, ``"hour"``, ``"day"``, ``"week"`` or ``"month"``.
        ceiling: how much may be counted in it.
        used: how much was; below zero if more was taken back before the quota was declared.
        available: how much is left; zero if the quota was lowered below the used part.
        resets_at: when the next period begins.
    """

    period: str
    ceiling: int
    used: int
    available: int
    resets_at: datetime


def quotas(counter: object, *, using: str | None = None) -> tuple[QuotaUsage, ...]:
    """Return how much of each of a counter's quotas is used now, the shortest period first.

    Sends one statement; none if nothing is declared (``"CEILING": {"month": 10_000}``). The answer
    is for people. Concurrent calls can use the rest, so count and catch `QuotaExceeded`.

    Args:
        counter: a key, or the value of a field.
        using: the database.

    Raises:
        InvalidKey: it isn't a counter.
        UnsavedInstance: its record has no row yet.
        CounterUnavailable: the database can't be reached.
    """
    ref = ref_to(counter, using)
    declared = Change(ref, 1).apart.guard
    if not isinstance(declared, Quotas):
        return ()
    pairs = [(ref.key, quota.cell) for quota in declared]
    sums = used_periods(pairs, ref.using)
    return tuple(
        QuotaUsage(
            period=quota.period,
            ceiling=quota.most,
            used=used,
            available=max(0, quota.most - used),
            resets_at=quota.ends_at,
        )
        for quota, used in zip(declared, sums, strict=True)
    )


ahistory = twin(history)
aquotas = twin(quotas)
