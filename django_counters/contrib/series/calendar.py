"""Minutes, hours, days, weeks and months, as the clocks of a time zone show them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta, tzinfo

PERIODS = ("minute", "hour", "day", "week", "month")
_MINUTE, _HOUR = timedelta(minutes=1), timedelta(hours=1)
_LONGEST = timedelta(days=34)
_SECOND, _INSTANT = timedelta(seconds=1), timedelta(microseconds=1)


def beginnings(by: str, since: datetime, until: datetime, zone: tzinfo) -> Iterator[datetime]:
    """When the periods begin that touch the time from ``since`` to before ``until``, in UTC.

    An hour begins where the clock shows a full one, and where the clock is set: an hour that it
    shows twice is two, and none is longer than sixty minutes.
    """
    since, until = since.astimezone(UTC), until.astimezone(UTC)
    found = _clock_periods if by in ("minute", "hour") else _calendar_periods
    yield from found(by, since, until, zone)


def period_of(by: str, moment: datetime, zone: tzinfo) -> tuple[datetime, datetime]:
    """When the period of a moment begins, and when the next one does, in UTC."""
    # In UTC: time added to a moment of a time zone moves its clock, which goes wrong in the hour
    # that the clock shows twice.
    moment = moment.astimezone(UTC)
    starts = beginnings(by, moment, moment + _LONGEST, zone)
    return next(starts), next(starts)


def _clock_periods(by: str, since: datetime, until: datetime, zone: tzinfo) -> Iterator[datetime]:
    length = _MINUTE if by == "minute" else _HOUR
    moment = since - _past(since, length, zone)
    if _offset(moment, zone) != _offset(since, zone):
        moment = _jump(moment, since, zone)
    while moment < until:
        yield moment
        following = moment + length - _past(moment, length, zone)
        if _offset(following - _INSTANT, zone) != _offset(moment, zone):
            following = _jump(moment, following, zone)
        moment = following


def _calendar_periods(
    by: str, since: datetime, until: datetime, zone: tzinfo
) -> Iterator[datetime]:
    day = since.astimezone(zone).date()
    if by != "day":
        day -= timedelta(days=day.weekday() if by == "week" else day.day - 1)
    # A clock that is set back past midnight shows a day again that is over.
    while _midnight(_following(day, by), zone) <= since:
        day = _following(day, by)
    # A midnight that the clock skips is the moment at which it is set.
    while (moment := _midnight(day, zone)) < until:
        day = _following(day, by)
        # A day that the calendar skips begins when the next one does.
        if moment < _midnight(day, zone):
            yield moment


def _midnight(day: date, zone: tzinfo) -> datetime:
    return datetime.combine(day, time(), zone).astimezone(UTC)


def _following(day: date, by: str) -> date:
    if by == "month":
        return (day.replace(day=1) + timedelta(days=32)).replace(day=1)
    return day + timedelta(days=7 if by == "week" else 1)


def _past(moment: datetime, length: timedelta, zone: tzinfo) -> timedelta:
    """How much of its minute or hour is over, by the clock."""
    local = moment.astimezone(zone)
    return (
        timedelta(minutes=local.minute, seconds=local.second, microseconds=local.microsecond)
        % length
    )


def _offset(moment: datetime, zone: tzinfo) -> timedelta | None:
    return moment.astimezone(zone).utcoffset()


def _jump(before: datetime, after: datetime, zone: tzinfo) -> datetime:
    """When the clock was set between two moments, which is at a full second."""
    low, high = before.replace(microsecond=0), after.replace(microsecond=0)
    first = _offset(low, zone)
    while high - low > _SECOND:
        middle = low + (high - low) // _SECOND // 2 * _SECOND
        low, high = (middle, high) if _offset(middle, zone) == first else (low, middle)
    return high
