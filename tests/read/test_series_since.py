"""A period that is declared later is not asked for the time before."""

from __future__ import annotations

from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from django.utils import timezone

from django_counters import clock
from django_counters.exceptions import HistoryNotKept
from django_counters.models import Counter, CounterMeasure
from django_counters.registry import registry
from django_counters.testing import override_counters

pytestmark = pytest.mark.django_db(transaction=True)
DAY = timedelta(days=1)


def _declared_ago(period: str, ago: timedelta) -> None:
    """As if a period had been declared some time ago."""
    row = CounterMeasure.objects.get(name="hits")
    row.periods[period] = (clock.utc() - ago).isoformat()
    row.save()
    registry.forget_strategies()


def test_a_longer_one_is_read_from_shorter_ones_until_it_is_complete() -> None:
    now = clock.utc()
    with override_counters(hits={"PER": ["day"]}):
        for days in range(1, 40):
            Counter.objects.increment("hits:a", at=now - days * DAY)
    with override_counters(hits={"PER": ["day", "month"]}):
        Counter.objects.increment("hits:a")
        series = Counter.objects.series("hits:a")
        assert series.total() == 40
        assert sum(point.value for point in series.per("month").last(3).list()) == 40
        # As soon as a whole one was counted it answers, for the time since.
        _declared_ago("month", 70 * DAY)
        (present,) = series.per("month").last(1).list()
        assert present.value < 40


def test_a_shorter_one_is_not_known_before() -> None:
    with override_counters(hits={"PER": ["day"]}):
        Counter.objects.increment("hits:a")
    with override_counters(hits={"PER": ["hour", "day"]}):
        Counter.objects.increment("hits:a")
        with pytest.raises(HistoryNotKept):
            Counter.objects.series("hits:a").per("hour").last(5).list()
        _declared_ago("hour", 10 * timedelta(hours=1))
        found = Counter.objects.series("hits:a").per("hour").last(5).list()
        assert sum(point.value for point in found) == 1


def test_one_that_was_left_out_for_a_time_begins_anew() -> None:
    with override_counters(hits={"PER": ["hour", "day"]}):
        Counter.objects.increment("hits:a")
    with override_counters(hits={"PER": ["day"]}):
        Counter.objects.increment("hits:a")
    with override_counters(hits={"PER": ["hour", "day"]}):
        Counter.objects.increment("hits:a")
        assert CounterMeasure.objects.get(name="hits").periods["hour"]
        (today,) = Counter.objects.series("hits:a").per("day").last(1).list()
        assert today.value == 3


def test_those_that_were_declared_together_are_known_from_the_beginning() -> None:
    ago = datetime(2026, 1, 15, tzinfo=ZoneInfo("UTC"))
    with override_counters(hits={"PER": ["day", "month"]}):
        Counter.objects.increment("hits:a", 7, at=ago)
        zone = timezone.get_default_timezone()
        since, until = datetime(2026, 1, 1, tzinfo=zone), datetime(2026, 2, 1, tzinfo=zone)
        (january,) = Counter.objects.series("hits:a").per("month").between(since, until).list()
        assert january.value == 7
