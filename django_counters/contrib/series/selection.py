"""The time, counters and tags that a series selects, and its parts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta, tzinfo
from itertools import pairwise
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from django_counters import clock
from django_counters.contrib.series.calendar import PERIODS, beginnings, period_of
from django_counters.contrib.series.sources import CellSource
from django_counters.errors import HistoryNotKept, InvalidPeriod
from django_counters.measure import Measure
from django_counters.options import length_of

MOST_BUCKETS = 10_000
DEFAULT_SPANS = {
    "minute": timedelta(hours=1),
    "hour": timedelta(days=1),
    "day": timedelta(days=30),
    "week": timedelta(weeks=26),
    "month": timedelta(days=365),
}
# At least as long as any period of that name on average, also where clocks are set.
_LONGEST = {
    "minute": timedelta(minutes=1),
    "hour": timedelta(hours=1),
    "day": timedelta(hours=25),
    "week": timedelta(days=7, hours=2),
    "month": timedelta(days=31, hours=2),
}
_SLACK = timedelta(days=3)
_INSTANT = timedelta(microseconds=1)
# Where a longer period begins, one of each of these does. A month may begin within a week.
NESTED = ("minute", "hour", "day")


@dataclass(frozen=True, slots=True)
class Span:
    """The selected time.

    Its moments are in UTC. Python compares two moments of one time zone by their clock, which is
    wrong in an hour that the clock shows twice.

    Attributes:
        by: the period; None if the whole time is one.
        number: the number of periods, the present one included.
        length: the time back from now.
        since, until: the first moment, and the end; None for now.
        zone: the time zone whose clocks begin the periods; None for the stored one.
        partial: whether the stored counts answer for a time that isn't completely known.
    """

    by: str | None = None
    number: int | None = None
    length: timedelta | None = None
    since: datetime | None = None
    until: datetime | None = None
    zone: tzinfo | None = None
    partial: bool = False

    @property
    def is_open(self) -> bool:
        """Whether no time is selected."""
        return self.number is None and self.length is None and self.since is None

    def bounds(self, now: datetime) -> tuple[datetime, datetime]:
        """Return its first moment, and its end."""
        if self.since is not None:
            until = self.until or now + _INSTANT
            if until <= self.since:
                raise InvalidPeriod(period=str(self.since), known="it is yet to come")
            return self.since, until
        if self.length is None and self.by is None:
            problem = "say which time: last() or between(), and of a number of periods per()"
            raise InvalidPeriod(period=self.number or self.by, known=problem)
        return now - (self.length or DEFAULT_SPANS[str(self.by)]), now + _INSTANT

    def starts(self, now: datetime, zone: tzinfo) -> list[datetime]:
        """Return where its periods begin, and at last where the last one ends, in UTC."""
        by = str(self.by)
        if self.number is None:
            return _starts_between(by, *self.bounds(now), self.zone or zone)
        shown = self.zone or zone
        since = now - _LONGEST[by] * self.number - _SLACK
        starts = list(beginnings(by, since, now + _INSTANT, shown))[-self.number :]
        starts.append(period_of(by, now, shown)[1])
        return starts

    def shown(self, starts: Iterable[datetime], zone: tzinfo) -> list[datetime]:
        """Return moments in the selected time zone, or else in the stored one."""
        return [start.astimezone(self.zone or zone) for start in starts]


def _starts_between(by: str, since: datetime, until: datetime, zone: tzinfo) -> list[datetime]:
    """Return where the periods begin, and at last where the last one ends."""
    starts: list[datetime] = []
    for moment in beginnings(by, since, until + timedelta(days=32), zone):
        starts.append(moment)
        if moment >= until:
            return starts if len(starts) > 1 else []
        if len(starts) > MOST_BUCKETS:
            raise InvalidPeriod(period=by, known=f"at most {MOST_BUCKETS} of them at once")
    return []


class Plan(NamedTuple):
    """The cells that answer for a time.

    Attributes:
        period: the stored period of the cells.
        starts: where the selected periods begin, and where the last one ends; empty for all that is
            stored.
    """

    period: str
    starts: Sequence[datetime]


class StoredSpan(NamedTuple):
    """The stored periods.

    Attributes:
        measure: the declaration.
        zone: the time zone whose clocks begin them.
        since: when counting by a period began, if that was later than by others.
    """

    measure: Measure
    zone: tzinfo
    since: Mapping[str, datetime | None]

    def complete(self, by: str, now: datetime) -> datetime | None:
        """Return when the first complete period begins that is still kept; None if all are."""
        moments = []
        days = dict(self.measure.declared("keep")).get(by)
        if days is not None:
            moments.append(period_of(by, now - timedelta(days=days), self.zone)[0])
        counted = self.since.get(by)
        if counted is not None:
            moments.append(period_of(by, counted, self.zone)[1])
        return max(moments, default=None)


def plan(known: StoredSpan, span: Span, *, summed: bool) -> Plan:
    """Choose the coarsest stored period that answers for a time.

    Args:
        known: the stored periods.
        span: the selected time.
        summed: whether one number for all of it is enough.

    Raises:
        InvalidPeriod: no stored period begins where the selected ones do; or no time is selected,
            or too much.
        HistoryNotKept: cells of that time aren't kept.
    """
    now = clock.utc()
    if summed and span.is_open and span.by is None:
        since = {by: known.complete(by, now) for by in known.measure.declared("per")}
        forever = [by for by, kept in since.items() if kept is None]
        # The coarsest period that is kept forever.
        return Plan(forever[-1] if forever else _known_longest(known, span, since), ())
    with within_dates(span):
        outlined = span.by is None
        starts = _outline(known, span, now) if outlined else span.starts(now, known.zone)
        wanted = [starts[0], starts[-1]] if summed else starts
        return Plan(_answering(known, wanted, span, now), span.shown(starts, known.zone))


@contextmanager
def within_dates(span: Span) -> Iterator[None]:
    """Raise `InvalidPeriod` if a time in the block is outside the range of dates."""
    try:
        yield
    except OverflowError as error:
        problem = "it is out of the range of dates"
        raise InvalidPeriod(period=span.by or "this time", known=problem) from error


def _answering(known: StoredSpan, wanted: Sequence[datetime], span: Span, now: datetime) -> str:
    """Return the coarsest stored period that begins at each moment, and is kept since the first.

    A coarser period has fewer rows to sum.
    """
    measure, zone, _ = known
    periods = [by for by in measure.declared("per") if _begins_at_all(by, wanted, zone, span)]
    if not periods:
        shown, stored = str(span.zone or zone), ", ".join(measure.declared("per"))
        problem = (
            f"{measure.name} stores {stored} by the clocks of {zone}, which do "
            f"not begin where each {span.by} of {shown} does"
        )
        raise InvalidPeriod(period=span.by, known=problem)
    since = {by: known.complete(by, now) for by in periods}
    kept = [by for by in periods if since[by] is None or since[by] <= wanted[0]]  # type: ignore[operator]
    return kept[-1] if kept else _known_longest(known, span, since)


def _begins_at_all(by: str, wanted: Sequence[datetime], zone: tzinfo, span: Span) -> bool:
    same = span.by is not None and str(span.zone or zone) == str(zone)
    # By the same clocks, shorter periods make up longer ones.
    if same and by in NESTED and PERIODS.index(by) <= PERIODS.index(str(span.by)):
        return True
    return all(period_of(by, moment, zone)[0] == moment for moment in wanted)


def _outline(known: StoredSpan, span: Span, now: datetime) -> list[datetime]:
    """Return where a time without periods begins and ends, by the finest period kept of it.

    A time back from now begins with a whole period. Both moments of `between` must begin a period,
    so that two adjacent times share no count; the end may also be in the future.
    """
    zone, name = known.zone, known.measure.name
    since, until = span.bounds(now)
    finest = _finest_kept(known, span, since, now)
    first, _ = period_of(finest, since, zone)
    last, after = period_of(finest, until, zone)
    end = until if last == until else after
    for moment, start in ((since, first), (until, last)):
        if span.since is not None and moment != start and moment <= now:
            nearest = clock.shown(start.astimezone(zone))
            problem = f"no {finest} that is kept of {name} begins then; one does {nearest}"
            raise InvalidPeriod(period=str(moment), known=problem)
    return [first, end]


def _finest_kept(known: StoredSpan, span: Span, moment: datetime, now: datetime) -> str:
    since: dict[str, datetime | None]
    since = {by: known.complete(by, now) for by in known.measure.declared("per")}
    for by, kept in since.items():
        if kept is None or kept <= moment:
            return by
    return _known_longest(known, span, since)


def _known_longest(known: StoredSpan, span: Span, since: Mapping[str, datetime | None]) -> str:
    """Return the period that is known longest, the coarsest of several.

    Raises:
        HistoryNotKept: the series isn't `partial`.
    """
    moments = {by: moment for by, moment in since.items() if moment is not None}
    first = min(moments.values())
    if not span.partial:
        raise HistoryNotKept(key=known.measure.name, since=clock.shown(first))
    return [by for by, moment in moments.items() if moment == first][-1]


def check_period(by: object) -> str:
    """Return the name of a period."""
    if by not in PERIODS:
        raise InvalidPeriod(period=by, known=", ".join(PERIODS))
    return str(by)


def check_last(time: object) -> int | timedelta:
    """Return a number of periods, or a length of time."""
    if isinstance(time, int) and not isinstance(time, bool):
        if 1 <= time <= MOST_BUCKETS:
            return time
        raise InvalidPeriod(period=time, known=f"from 1 to {MOST_BUCKETS} periods")
    length = length_of(time)
    if length is None:
        known = "a number of periods, or a time such as 5m, 24h, 7d or 2w"
        raise InvalidPeriod(period=time, known=known)
    return length


def check_between(since: object, until: object) -> tuple[datetime, datetime | None]:
    """Return two moments, the second of which is later."""
    start = clock.check_moment(since)
    end = None if until is None else clock.check_moment(until)
    if end is not None and end <= start:
        raise InvalidPeriod(period=str(until), known=f"it is not later than {since}")
    return start, end


def check_zone(zone: object) -> tzinfo:
    """Return a time zone from itself or its name."""
    if isinstance(zone, tzinfo):
        return zone
    try:
        return ZoneInfo(str(zone))
    except (OSError, ValueError, KeyError) as error:
        known = 'a time zone is needed, such as "Europe/Berlin"'
        raise InvalidPeriod(period=zone, known=known) from error


# What is selected, and what a read returns.

#: The values of the selected tags, in their order; None for a tag without a value.
Combination = tuple[str | None, ...]


@dataclass(frozen=True, slots=True)
class SeriesSelection:
    """The counts that a series selects.

    Attributes:
        source: the counters.
        span: the time.
        where: tags, and which of their values count; None stands for no value.
        tags: the tags that split the counts.
        using: the database; None for the router's.
    """

    source: CellSource
    span: Span = field(default_factory=Span)
    where: tuple[tuple[str, frozenset[str | None]], ...] = ()
    tags: tuple[str, ...] = ()
    using: str | None = None


@dataclass(frozen=True, slots=True)
class SeriesAmounts:
    """The amounts of a selection.

    Attributes:
        starts: where the periods begin, and where the last one ends.
        amounts: one for each period, or one for all, by the counter's key (empty for all counters
            together) and the values of tags.
        names: the names of the counters, by their keys.
        entries: the number of a ledger's entries in each period; None without a ledger.
    """

    starts: Sequence[datetime]
    amounts: Mapping[tuple[str, Combination], list[int]]
    names: Mapping[str, Any] = field(default_factory=dict)
    entries: Sequence[int] | None = None


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
        entries: the number of a ledger's entries; None if they weren't read.
    """

    start: datetime
    end: datetime
    change: int
    entries: int | None


@dataclass(frozen=True, slots=True)
class Split:
    """The counts with the same values of some tags.

    Attributes:
        tags: the values by the names of the tags: ``"~"`` for all that aren't counted apart, None
            for none.
        points: one for each period.
        total: the sum of them.
    """

    tags: Mapping[str, str | None]
    points: tuple[Point, ...]
    total: int


def points_of(starts: Sequence[datetime], amounts: Sequence[int] | None) -> list[Point]:
    """Return a point for each period, with zeros if nothing was counted."""
    values = amounts or [0] * (len(starts) - 1)
    shown = map(clock.shown, starts)
    return [Point(*pair, value) for pair, value in zip(pairwise(shown), values, strict=True)]


def order_of(amount: int, values: Combination) -> tuple[int, tuple[str, ...]]:
    """Return the sort key of rows by tag: the largest first."""
    return -amount, tuple(value or "" for value in values)
