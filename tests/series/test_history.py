"""How a counter changed, period by period, by the clocks of any time zone."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from django.test.utils import override_settings
from django.utils import timezone
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from django_counters import clock
from django_counters.contrib import series
from django_counters.contrib.series import Bucket
from django_counters.contrib.series.calendar import PERIODS
from django_counters.contrib.series.selection import MOST_BUCKETS
from django_counters.errors import InvalidKey, InvalidPeriod
from django_counters.models import (
    Counter,
    CounterDelta,
)
from django_counters.tokens import mint

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("past")]
BERLIN = ZoneInfo("Europe/Berlin")
KOLKATA = ZoneInfo("Asia/Kolkata")
LORD_HOWE = ZoneInfo("Australia/Lord_Howe")
SAO_PAULO = ZoneInfo("America/Sao_Paulo")
ZONES: list[tzinfo] = [UTC, BERLIN, KOLKATA, LORD_HOWE, SAO_PAULO]


def at(text: str, zone: tzinfo = UTC) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=zone)


def count(moments: Iterable[datetime], by: int = 1, key: str = "a") -> None:
    CounterDelta.objects.append_many([(key, by, mint(moment)) for moment in moments])


def every(step: timedelta, since: datetime, until: datetime) -> list[datetime]:
    """Moments a step apart, in the time that really passes."""
    first, steps = since.astimezone(UTC), (until.astimezone(UTC) - since.astimezone(UTC)) / step
    return [first + step * number for number in range(int(steps))]


def changes(buckets: list[Bucket]) -> list[int]:
    return [bucket.change for bucket in buckets]


def hourly(since: str, until: str, zone: tzinfo = UTC, by: str = "hour") -> list[Bucket]:
    return series.history("a", by, since=at(since, zone), until=at(until, zone), tz=zone)


class TestBuckets:
    def test_periods_without_entries_are_zero(self) -> None:
        count([at("2024-05-01T10:05"), at("2024-05-01T10:59:59.999")])
        count([at("2024-05-01T12:30")], by=-5)
        assert hourly("2024-05-01T09:00", "2024-05-01T14:00") == [
            Bucket(at("2024-05-01T09:00"), at("2024-05-01T10:00"), 0, 0),
            Bucket(at("2024-05-01T10:00"), at("2024-05-01T11:00"), 2, 2),
            Bucket(at("2024-05-01T11:00"), at("2024-05-01T12:00"), 0, 0),
            Bucket(at("2024-05-01T12:00"), at("2024-05-01T13:00"), -5, 1),
            Bucket(at("2024-05-01T13:00"), at("2024-05-01T14:00"), 0, 0),
        ]

    def test_periods_are_whole(self) -> None:
        """The first one is that of ``since``, the last one begins before ``until``."""
        count([at("2024-05-01T10:05"), at("2024-05-01T12:55")])
        found = hourly("2024-05-01T10:30", "2024-05-01T12:00:00.000001")
        assert changes(found) == [1, 0, 1]
        assert (found[0].start, found[-1].end) == (at("2024-05-01T10:00"), at("2024-05-01T13:00"))

    @pytest.mark.many_writers
    def test_a_sum_may_be_larger_than_any_entry(self) -> None:
        Counter.objects.create(key="a", value=-(2**62))
        for _ in range(3):
            count([at("2024-05-01T10:05")], by=2**62)
        assert changes(hourly("2024-05-01T10:00", "2024-05-01T11:00")) == [3 * 2**62]

    @pytest.mark.parametrize(
        ("by", "buckets"), [("minute", 60), ("hour", 24), ("day", 30), ("week", 26), ("month", 12)]
    )
    def test_without_a_time_it_is_the_last_one(self, by: str, buckets: int) -> None:
        count([clock.utc()])
        before = clock.utc()
        found = series.history("a", by)
        assert sum(changes(found)) == 1
        # The first and the last one are parts of theirs, and a month may be short.
        assert buckets <= len(found) <= buckets + 2
        assert found[-1].start <= clock.utc()
        assert found[-1].end > before

    @pytest.mark.parametrize(
        ("since", "until"),
        [("2024-05-01T10:00", "2024-05-01T10:00"), ("2024-05-01T10:00", "2024-04-01T10:00")],
    )
    def test_no_time_has_no_periods(self, since: str, until: str) -> None:
        assert hourly(since, until) == []

    def test_there_are_not_too_many(self) -> None:
        since = at("2024-05-01")
        until = since + timedelta(minutes=MOST_BUCKETS)
        count([since])
        assert len(series.history("a", "minute", since=since, until=until)) == 10_000
        with pytest.raises(InvalidPeriod, match="at most 10000 of them"):
            series.history("a", "minute", since=since, until=until + timedelta(microseconds=1))

    @pytest.mark.parametrize("by", ["year", "Hour", "", None, 5, "hours"])
    def test_other_periods_are_refused(self, by: Any) -> None:
        with pytest.raises(InvalidPeriod, match="minute, hour, day, week, month"):
            series.history("a", by)

    def test_no_bad_key(self) -> None:
        with pytest.raises(InvalidKey):
            series.history("a b")


class TestZones:
    """One entry each half an hour: a period has as many as half hours pass in it."""

    def test_without_one_it_is_the_current_one(self) -> None:
        count([at("2024-05-01T20:00")])
        with timezone.override(KOLKATA):
            found = series.history("a", "day", since=at("2024-05-01"), until=at("2024-05-03"))
        assert changes(found) == [0, 1, 0]

    def test_a_time_without_a_zone_is_of_the_current_one(self) -> None:
        count([at("2024-05-01T20:00", KOLKATA)])
        with timezone.override(KOLKATA):
            found = series.history(
                "a",
                "hour",
                since=datetime(2024, 5, 1, 20),  # noqa: DTZ001
                until=datetime(2024, 5, 1, 21),  # noqa: DTZ001
            )
            assert changes(found) == [1]
            assert Counter.objects.value_at("a", datetime(2024, 5, 1, 20)) == 1  # noqa: DTZ001
            assert Counter.objects.value_at("a", datetime(2024, 5, 1, 19)) == 0  # noqa: DTZ001

    def test_a_project_without_zones(self) -> None:
        count([at("2024-05-01T20:00", KOLKATA)])
        with override_settings(USE_TZ=False, TIME_ZONE="Asia/Kolkata"):
            since, until = datetime(2024, 5, 1, 20), datetime(2024, 5, 1, 21)  # noqa: DTZ001
            found = series.history("a", "hour", since=since, until=until)
            assert found == [Bucket(since, until, 1, 1)]
            (entry,) = Counter.objects.explain("a").entries
            assert entry.created_at == since
            assert Counter.objects.value_at("a", since - timedelta(seconds=1)) == 0


MOMENTS = [
    *every(timedelta(minutes=17), at("2024-03-29T22:00"), at("2024-04-01T03:00")),
    *every(timedelta(minutes=13), at("2024-10-26T22:00"), at("2024-10-27T05:00")),
    *(at("2024-10-27T00:00") + timedelta(milliseconds=number - 2) for number in range(5)),
]
near = st.sampled_from([at("2024-03-31T01:00"), at("2024-10-27T01:00"), at("2024-04-06T15:00")])


def test_periods_add_up_to_the_entries() -> None:
    present = [(moment, 1 << number % 60) for number, moment in enumerate(MOMENTS)]
    CounterDelta.objects.append_many([("a", by, mint(moment)) for moment, by in present])

    @settings(suppress_health_check=list(HealthCheck))
    @given(
        st.sampled_from(PERIODS),
        near,
        st.timedeltas(timedelta(days=-2), timedelta(days=2)),
        st.timedeltas(timedelta(seconds=1), timedelta(days=3)),
        st.sampled_from(ZONES),
    )
    def agree(by: str, middle: datetime, off: timedelta, span: timedelta, zone: tzinfo) -> None:
        since = middle + off
        found = series.history("a", by, since=since, until=since + span, tz=zone)
        for bucket in found:
            start, end = bucket.start.astimezone(UTC), bucket.end.astimezone(UTC)
            inside = [delta for moment, delta in present if start <= moment < end]
            assert (bucket.change, bucket.entries) == (sum(inside), len(inside))

    agree()
