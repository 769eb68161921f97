"""The time that a series is asked for, and which stored periods answer for it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from typing import NamedTuple
from zoneinfo import ZoneInfo

from django_counters import clock
from django_counters.calendar import PERIODS, beginnings, length_of, period_of
from django_counters.exceptions import HistoryNotKept, InvalidPeriod
from django_counters.measure import Measure

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
    """The time that is asked for. Its moments are in UTC: two of a time zone that shows an hour
    twice are not compared as moments, but as what the clock shows.

    Attributes:
        by: the period; None where all of the time is one.
        number: how many periods, the present one included.
        length: how long, back from now.
        since, until: between which moments; None for now.
        zone: whose clocks begin the periods; None for those of the measure.
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
        """Whether no time is said."""
        return self.number is None and self.length is None and self.since is None

    def bounds(self, now: datetime) -> tuple[datetime, datetime]:
        """Its first moment, and the one at which it is over."""
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
        """Where its periods begin, and at last where the one after them does, in UTC."""
        by = str(self.by)
        if self.number is None:
            return _starts_between(by, *self.bounds(now), self.zone or zone)
        shown = self.zone or zone
        since = now - _LONGEST[by] * self.number - _SLACK
        starts = list(beginnings(by, since, now + _INSTANT, shown))[-self.number :]
        starts.append(period_of(by, now, shown)[1])
        return starts

    def shown(self, starts: Iterable[datetime], zone: tzinfo) -> list[datetime]:
        """Moments by the clocks that are asked for, or else by those of the measure."""
        return [start.astimezone(self.zone or zone) for start in starts]


def _starts_between(by: str, since: datetime, until: datetime, zone: tzinfo) -> list[datetime]:
    """Where the periods begin, and at last where the one after them does."""
    starts: list[datetime] = []
    for moment in beginnings(by, since, until + timedelta(days=32), zone):
        starts.append(moment)
        if moment >= until:
            return starts if len(starts) > 1 else []
        if len(starts) > MOST_BUCKETS:
            raise InvalidPeriod(period=by, known=f"at most {MOST_BUCKETS} of them at once")
    return []


class Plan(NamedTuple):
    """How a time is read.

    Attributes:
        period: the stored period whose cells are read.
        starts: where the periods begin that are asked for, and where the last one ends; empty for
            all that is stored.
    """

    period: str
    starts: Sequence[datetime]


class StoredSpan(NamedTuple):
    """The stored data, and since when.

    Attributes:
        measure: the declaration.
        zone: whose clocks begin the stored periods.
        since: from when on a period is counted by, of those that were declared later than others.
    """

    measure: Measure
    zone: tzinfo
    since: Mapping[str, datetime | None]

    def complete(self, by: str, now: datetime) -> datetime | None:
        """When the first period begins that is complete and still kept; None where each is."""
        moments = []
        days = dict(self.measure.keep).get(by)
        if days is not None:
            moments.append(period_of(by, now - timedelta(days=days), self.zone)[0])
        counted = self.since.get(by)
        if counted is not None:
            moments.append(period_of(by, counted, self.zone)[1])
        return max(moments, default=None)


def plan(known: StoredSpan, span: Span, *, summed: bool) -> Plan:
    """Choose the coarsest stored period that tells what is asked for.

    Args:
        known: the stored data.
        span: the time that is asked for.
        summed: whether one number for all of it is enough.

    Raises:
        InvalidPeriod: no stored period begins where those do that are asked for; or there is no
            time, or too much of it.
        HistoryNotKept: cells of that time are not kept.
    """
    now = clock.utc()
    if summed and span.is_open and span.by is None:
        return Plan(_for_ever(known, span, now), ())
    with within_dates(span):
        outlined = span.by is None
        starts = _outline(known, span, now) if outlined else span.starts(now, known.zone)
        wanted = [starts[0], starts[-1]] if summed else starts
        return Plan(_answering(known, wanted, span, now), span.shown(starts, known.zone))


@contextmanager
def within_dates(span: Span) -> Iterator[None]:
    """A block in which a time that is out of the range of dates is an `InvalidPeriod`."""
    try:
        yield
    except OverflowError as error:
        problem = "it is out of the range of dates"
        raise InvalidPeriod(period=span.by or "this time", known=problem) from error


def _answering(known: StoredSpan, wanted: Sequence[datetime], span: Span, now: datetime) -> str:
    """The coarsest stored period that begins at each of some moments, and is kept since the first.

    To sum rows of a coarser period reads fewer of them.
    """
    measure, zone, _ = known
    found = [by for by in measure.per if _begins_at_all(by, wanted, zone, span)]
    if not found:
        shown = str(span.zone or zone)
        problem = (
            f"{measure.name} stores {', '.join(measure.per)} by the clocks of {zone}, which do "
            f"not begin where each {span.by} of {shown} does"
        )
        raise InvalidPeriod(period=span.by, known=problem)
    since = {by: known.complete(by, now) for by in found}
    kept = [by for by in found if since[by] is None or since[by] <= wanted[0]]  # type: ignore[operator]
    return kept[-1] if kept else _known_longest(known, span, since)


def _begins_at_all(by: str, wanted: Sequence[datetime], zone: tzinfo, span: Span) -> bool:
    same = span.by is not None and str(span.zone or zone) == str(zone)
    # By the same clocks, shorter periods make up longer ones.
    if same and by in NESTED and PERIODS.index(by) <= PERIODS.index(str(span.by)):
        return True
    return all(_begins_at(by, moment, zone) for moment in wanted)


def _begins_at(by: str, moment: datetime, zone: tzinfo) -> bool:
    return period_of(by, moment, zone)[0] == moment


def _outline(known: StoredSpan, span: Span, now: datetime) -> list[datetime]:
    """Where a time without periods begins and ends, by the finest period that is kept of it.

    Counting back from now begins with a whole period. Two moments have to begin one each, so
    that what one call counts no other does; or the end is yet to come.
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
    since = {by: known.complete(by, now) for by in known.measure.per}
    for by, kept in since.items():
        if kept is None or kept <= moment:
            return by
    return _known_longest(known, span, since)


def _for_ever(known: StoredSpan, span: Span, now: datetime) -> str:
    """The coarsest period that is kept for ever."""
    since = {by: known.complete(by, now) for by in known.measure.per}
    found = [by for by, kept in since.items() if kept is None]
    return found[-1] if found else _known_longest(known, span, since)


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


def check_last(given: object) -> int | timedelta:
    """Return a number of periods, or a length of time."""
    if isinstance(given, int) and not isinstance(given, bool):
        if 1 <= given <= MOST_BUCKETS:
            return given
        raise InvalidPeriod(period=given, known=f"from 1 to {MOST_BUCKETS} periods")
    length = length_of(given)
    if length is None:
        known = "a number of periods, or a time such as 5m, 24h, 7d or 2w"
        raise InvalidPeriod(period=given, known=known)
    return length


def check_between(since: object, until: object) -> tuple[datetime, datetime | None]:
    """Return two moments, of which the second one is later."""
    start = moment_of(since)
    end = None if until is None else moment_of(until)
    if end is not None and end <= start:
        raise InvalidPeriod(period=str(until), known=f"it is not later than {since}")
    return start, end


def moment_of(given: object) -> datetime:
    """The moment that is meant, in UTC; one without a zone is of the current one."""
    if not isinstance(given, datetime):
        raise InvalidPeriod(period=given, known="a datetime is needed")
    with within_dates(Span()):
        return clock.meant(given).astimezone(UTC)


def check_zone(zone: object) -> tzinfo:
    """Return a time zone, given as such or by its name."""
    if isinstance(zone, tzinfo):
        return zone
    try:
        return ZoneInfo(str(zone))
    except (OSError, ValueError, KeyError) as error:
        known = 'a time zone is needed, such as "Europe/Berlin"'
        raise InvalidPeriod(period=zone, known=known) from error
