"""The counters with the largest counts of a period, or the largest rise; the place of one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, tzinfo
from typing import Any, ClassVar, NamedTuple

from django.db import models

from django_counters import clock
from django_counters.contrib.series.amounts import chosen, known_of, measured
from django_counters.contrib.series.calendar import PERIODS, period_of
from django_counters.contrib.series.models import CounterCell
from django_counters.contrib.series.options import SUM
from django_counters.contrib.series.reading import Series
from django_counters.contrib.series.selection import (
    NESTED,
    Plan,
    SeriesSelection,
    Span,
    StoredSpan,
    within_dates,
)
from django_counters.contrib.top.apps import RANK
from django_counters.contrib.top.models import CounterRank
from django_counters.errors import HistoryNotKept, InvalidPeriod, UnsupportedSeries
from django_counters.options import is_integer
from django_counters.stores.sql.measures import Stored
from django_counters.stores.sql.session import Session
from django_counters.twins import twin

MOST = 10_000
MOST_BEFORE = 1_000
_INSTANT = timedelta(microseconds=1)
_KEYS = 500
# By how much more candidates are looked at than were before.
_MORE = 4


@dataclass(frozen=True, slots=True)
class Ranked:
    """A counter and its count in a period.

    Attributes:
        key: of a named counter its key, of a record its primary key.
        record: the record, as the queryset has loaded it; None for a named counter.
        value: the count of the period.
        before: the count of the period that it is compared with; None without ``against``.
    """

    key: Any
    record: Any
    value: int
    before: int | None = None


@dataclass(frozen=True, slots=True)
class Placed:
    """Which place a counter has among all of its namespace or field, in a period.

    Attributes:
        place: 1 for the largest count; those with the same count have the same place. None where
            the counter has counted nothing, and where more than 10,000 have counted more.
        value: its count.
    """

    place: int | None
    value: int

    MOST: ClassVar = MOST


class _Row(NamedTuple):
    """The same, by the key of its cells."""

    key: str
    value: int
    before: int | None = None

    @property
    def rise(self) -> int:
        return self.value - (self.before or 0)


# Gives that many counters with the largest counts, but some.
_Candidates = Callable[[int, set[str]], Sequence[_Row]]
# Adds what was counted before.
_Compare = Callable[[Sequence[_Row]], Sequence[_Row]]


def largest(series: Series, n: int = 10, *, against: int | None = None) -> list[Ranked]:
    """Return the counters with the largest counts of one period, the largest first.

        top.largest(series.of(Post.views).per("week"), 10)
        top.largest(series.of(namespace="views").per("day"), 10, against=1)

    The period is the present one, or the one that `last` (with 1) or `between` names. Counters
    whose counts come to zero aren't among them. If several have the same number at the end of the
    list, any of them may be left out. For a field, each row has its record: loaded by the queryset
    that `of` received, in one more statement.

    With `where`, counters are compared by their counts with a tag. That is as exact, but sums the
    cells of all counters: it takes time in proportion to the cells in that period.

    Args:
        series: the counters and the period.
        n: how many, at most.
        against: compare with the period so many before, 1 for the last one, and order by the
            rise. If the period isn't over, the earlier one counts up to the same time of day: up to
            the end of the finest stored period. Without a finer one it counts as a whole. A
            counter below zero in that earlier time may be missed.

    Raises:
        UnsupportedSeries: ``top`` doesn't name this period, nor, with `where`, ``per``.
        InvalidPeriod: the series has no period, or several; the period begins at another moment in
            the time zone of `tz`; or a number is out of range.
        HistoryNotKept: ranks, or the counts to compare with, aren't known for that time.
    """
    asked = series.selection
    if not is_integer(n, 1, MOST):
        raise InvalidPeriod(period=n, known=f"largest() gives from 1 to {MOST} counters")
    if against is not None and not is_integer(against, 1, MOST_BEFORE):
        problem = f"against is how many periods before, from 1 to {MOST_BEFORE}"
        raise InvalidPeriod(period=against, known=problem)
    by = _period_of(asked)
    using = asked.source.database(asked.using)
    with Session(using).translated(), within_dates(asked.span):
        measure = measured(asked.source)
        stored, since = known_of(asked.source, measure, SUM, using)
        ranked = known_of(asked.source, measure, RANK, using)[1]
        now = clock.utc()
        bounds = _bounds(asked.span, by, now, since.zone)
        _check_that_it_is_known(since if asked.where else ranked, asked.span, bounds[0], now)
        parts = _parts(since, asked.span, bounds, against, now)
        if stored is None:
            # No increment has come yet.
            return []
        candidates = _candidates(asked, stored, by, bounds, using)
        compare = None if parts is None else _comparing(asked, stored, parts, using)
        return _with_records(asked, using, n, candidates, compare)


def place(series: Series) -> Placed:
    """Return the place of one counter in a period, among all of its namespace or field.

        top.place(series.of(post.views).per("week"))  # Placed(place=3, value=120)

    The period is the present one, or the one that `last` (with 1) or `between` names. It reads as
    many rows of an index as there are before this counter, up to 10,000.

    Raises:
        UnsupportedSeries: ``top`` doesn't name this period; or the series is of several counters,
            or of a tag.
        InvalidPeriod, HistoryNotKept: as `largest`.
    """
    asked = series.selection
    if not asked.source.is_one or asked.where:
        reason = "place() is of one counter, and not of tags"
        raise UnsupportedSeries(key=asked.source.label, reason=reason)
    by, using = _period_of(asked), asked.source.database(asked.using)
    with Session(using).translated(), within_dates(asked.span):
        measure = measured(asked.source)
        stored, known = known_of(asked.source, measure, RANK, using)
        now = clock.utc()
        start, _ = _bounds(asked.span, by, now, known.zone)
        _check_that_it_is_known(known, asked.span, start, now)
        if stored is None:
            # No increment has come yet.
            return Placed(None, 0)
        ranks = _ranks(stored.id, by, start, using)
        own = asked.source.among(ranks, using).values_list("value", flat=True).first()
        if own is None:
            return Placed(None, 0)
        # As many rows of the index as there are before this one, and no more than the most.
        before = ranks.filter(value__gt=own).order_by()[:MOST].count()
        return Placed(before + 1 if before < MOST else None, own)


alargest, aplace = twin(largest), twin(place)


def _period_of(asked: SeriesSelection) -> str:
    """Return the period of a series.

    Raises:
        InvalidPeriod: it has none.
        UnsupportedSeries: its sums aren't ranked.
    """
    by, measure = asked.span.by, measured(asked.source)
    if by is None:
        raise InvalidPeriod(period=None, known="a ranking needs one period. Name it with per()")
    if by not in (measure.declared("per") if asked.where else measure.declared(RANK.option)):
        reason = f"who has the most of a {by} needs top=[{by!r}]"
        raise UnsupportedSeries(key=asked.source.label, reason=reason)
    return by


def _bounds(span: Span, by: str, now: datetime, zone: tzinfo) -> tuple[datetime, datetime]:
    """Where the one period that is asked for begins, and where it ends."""
    starts = (replace(span, number=1) if span.is_open else span).starts(now, zone)
    if len(starts) != 2:
        number = max(len(starts) - 1, 0)
        known = f"a ranking is of one {by}, not of {number}. Use last(1) or between()"
        raise InvalidPeriod(period=by, known=known)
    start, end = starts
    if period_of(by, start, zone) != (start, end):
        problem = f"each {by} is stored by the clocks of {zone}, which begins at another moment"
        raise InvalidPeriod(period=by, known=problem)
    return start, end


def _check_that_it_is_known(known: StoredSpan, span: Span, start: datetime, now: datetime) -> None:
    since = known.complete(str(span.by), now)
    if since is not None and since > start and not span.partial:
        raise HistoryNotKept(key=known.measure.name, since=clock.shown(since))


def _parts(
    known: StoredSpan,
    span: Span,
    bounds: tuple[datetime, datetime],
    against: int | None,
    now: datetime,
) -> list[Plan] | None:
    """The time that is compared, in periods of which there are few; None without ``against``.

    Of a period that is not over, the one before counts up to the same time of day.
    """
    if against is None:
        return None
    by, start = str(span.by), bounds[0]
    for _ in range(against):
        start, end = period_of(by, start - _INSTANT, known.zone)
    _check_that_it_is_known(known, span, start, now)
    if bounds[1] <= now:
        return [Plan(by, (start, end))]
    zone = known.zone
    passed = _on_clock(now, zone) - _on_clock(bounds[0], zone)
    cut = (_on_clock(start, zone) + passed).replace(tzinfo=zone)
    if cut >= end:
        return [Plan(by, (start, end))]
    return list(_until(known, by, start, cut, now)) or [Plan(by, (start, end))]


def _until(
    known: StoredSpan, by: str, start: datetime, cut: datetime, now: datetime
) -> Iterator[Plan]:
    """Days, then hours, then minutes, as far as they are kept; the last one of them is whole."""
    shorter = PERIODS[: PERIODS.index(by)]
    finer = [one for one in NESTED if one in known.measure.declared("per") and one in shorter]
    since = {one: known.complete(one, now) for one in finer}
    kept = [one for one in reversed(finer) if (since[one] or start) <= start]
    for one in kept:
        first, following = period_of(one, cut, known.zone)
        until = following if one == kept[-1] and first < cut else first
        if start < until:
            yield Plan(one, (start, until))
            start = until


def _on_clock(moment: datetime, zone: tzinfo) -> datetime:
    return moment.astimezone(zone).replace(tzinfo=None)


def _candidates(
    asked: SeriesSelection, stored: Stored, by: str, bounds: tuple[datetime, datetime], using: str
) -> _Candidates:
    """From the ranks, which are in order; with tags, from the cells, which have to be summed."""

    def first(number: int, gone: set[str]) -> Sequence[_Row]:
        rows: Any
        if asked.where:
            cells = chosen(CounterCell, asked, stored, Plan(by, bounds), using).exclude(
                key__in=gone
            )
            sums = cells.order_by().values_list("key").annotate(amount=models.Sum("value"))
            rows = sums.exclude(amount=0).order_by("-amount")
        else:
            ranks = asked.source.among(_ranks(stored.id, by, bounds[0], using), using)
            ranks = ranks.exclude(key__in=gone) if gone else ranks
            rows = ranks.order_by("-value").values_list("key", "value")
        return [_Row(*row) for row in rows[:number]]

    return first


def _ranks(measure: int, by: str, start: datetime, using: str) -> models.QuerySet[CounterRank]:
    """Those of one period, but zeros."""
    number = PERIODS.index(by) + 1
    there = ~models.Q(value=0)
    ranks = CounterRank._base_manager.using(using)
    return ranks.filter(there, measure_id=measure, period=number, start=clock.shown(start))


def _comparing(
    asked: SeriesSelection, stored: Stored, parts: Sequence[Plan], using: str
) -> _Compare:
    """What counters have counted in some parts of a time; that of each is asked for once."""
    known: dict[str, int] = {}

    def ask(keys: Sequence[str]) -> None:
        known.update(dict.fromkeys(keys, 0))
        for part in parts:
            cells = chosen(CounterCell, asked, stored, part, using).filter(key__in=keys).order_by()
            for key, amount in cells.values_list("key").annotate(amount=models.Sum("value")):
                known[key] += amount

    def compare(rows: Sequence[_Row]) -> Sequence[_Row]:
        new = [row.key for row in rows if row.key not in known]
        for first in range(0, len(new), _KEYS):
            ask(new[first : first + _KEYS])
        return [row._replace(before=known[row.key]) for row in rows]

    return compare


def _risen(n: int, first: Callable[[int], Sequence[_Row]], compare: _Compare) -> list[_Row]:
    """Those that have risen most, of as few candidates as can tell.

    No counter can rise by more than it has counted, as long as it had no less than zero before.
    So one that has counted less than the last one found has risen by cannot be among them.
    """
    number = n * _MORE
    while True:
        candidates = compare(first(number))
        found = sorted(candidates, key=lambda row: (-row.rise, row.key))[:n]
        if len(candidates) < number or candidates[-1].value < found[-1].rise:
            return found
        number *= _MORE


def _with_records(
    asked: SeriesSelection, using: str, n: int, first: _Candidates, compare: _Compare | None
) -> list[Ranked]:
    """The counters with their records. Deleting records with SQL leaves counts behind."""
    gone: set[str] = set()
    while True:
        if compare is None:
            rows = sorted(first(n, gone), key=lambda row: (-row.value, row.key))
        else:
            rows = _risen(n, lambda number: first(number, gone), compare)
        found = asked.source.found(using, [row.key for row in rows])
        if len(found) == len(rows):
            return [Ranked(*found[row.key], row.value, row.before) for row in rows]
        gone.update(row.key for row in rows if row.key not in found)
