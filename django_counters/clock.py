"""The only source of "now" in Python. Rows are stamped by the clock of their database."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from django.conf import settings
from django.utils import timezone

from django_counters.errors import InvalidPeriod

#: Pending work that nobody has done for so long needs an administrator.
LATE = timedelta(minutes=10)


def now() -> datetime:
    """The present moment of this machine; aware if ``USE_TZ`` is on, as everywhere in Django."""
    return timezone.now()


def utc() -> datetime:
    """The present moment of this machine, in UTC."""
    return datetime.now(UTC)


def shown(moment: datetime) -> datetime:
    """An aware moment as Django hands out moments: naive where ``USE_TZ`` is off."""
    return moment if settings.USE_TZ else timezone.make_naive(moment)


def meant(moment: datetime) -> datetime:
    """The aware moment that the caller means by this one."""
    return timezone.make_aware(moment) if timezone.is_naive(moment) else moment


def check_moment(moment: object) -> datetime:
    """Return a moment in UTC. A naive one is in the current time zone.

    Raises:
        InvalidPeriod: it isn't a datetime, or is outside the range of dates.
    """
    if not isinstance(moment, datetime):
        raise InvalidPeriod(period=moment, known="a datetime is needed")
    try:
        return meant(moment).astimezone(UTC)
    except OverflowError as error:
        problem = "it is out of the range of dates"
        raise InvalidPeriod(period="this time", known=problem) from error
