"""The posts with the most views of a week, and those that rise: what a page shows of them."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, date, datetime, time, timedelta

from django.utils import timezone

from django_counters import HistoryNotKept, InvalidPeriod
from django_counters.contrib import series
from django_counters.contrib.top import Ranked, largest
from example_project.blog.models import Post

FIRST = 10
WEEK = timedelta(weeks=1)
# More posts than there are.
_ALL = 1000


def of_the_week() -> list[Ranked]:
    """The posts with the most views of the present week that have landed."""
    return largest(series.of(Post.views).per("week").partial(), FIRST)


def rising() -> list[Ranked]:
    """Those that rise most: today beside yesterday, up to the same hour."""
    return largest(series.of(Post.views).per("day").partial(), FIRST, against=1)


def weeks() -> dict[tuple[int, str], int]:
    """The views of each post in the present week and in the one before, by its Monday.

    Visitors mean days of UTC: nothing where the weeks of the database begin at another moment.
    """
    monday = monday_of(timezone.now().astimezone(UTC).date())
    found = {}
    for day in (monday, monday - timedelta(days=7)):
        start = datetime.combine(day, time(), UTC)
        with suppress(InvalidPeriod, HistoryNotKept):
            week = series.of(Post.views).per("week").between(start, start + WEEK)
            for row in largest(week, _ALL):
                found[row.key, day.isoformat()] = row.value
    return found


def monday_of(day: date) -> date:
    """The first day of its week."""
    return day - timedelta(days=day.weekday())
