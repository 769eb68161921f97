"""Counts over time: periods, zones, and what is kept."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from asgiref.sync import async_to_sync
from django.test import override_settings
from django.utils import timezone

from django_counters import clock
from django_counters.contrib import series
from django_counters.contrib.series import Bucket, Point
from django_counters.contrib.series.calendar import PERIODS
from django_counters.contrib.series.models import CounterCell
from django_counters.errors import (
    HistoryNotKept,
    InvalidPeriod,
    InvalidTags,
)
from django_counters.models import CounterMeasure
from django_counters.registry import registry
from tests.series.counting import (
    BERLIN,
    DAY,
    HOUR,
    KOLKATA,
    MIDNIGHT,
    NOON,
    NOW,
    ask,
    count,
    objects,
    values,
)

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("by_period")]


class TestTime:
    def test_periods_without_counts_are_zero(self) -> None:
        count(NOON, 2)
        count(NOON - 2 * HOUR, 3)
        assert ask().per("hour").last(3).list() == [
            Point(NOON - 2 * HOUR, NOON - HOUR, 3),
            Point(NOON - HOUR, NOON, 0),
            Point(NOON, NOON + HOUR, 2),
        ]

    def test_a_counter_that_nobody_counted_is_zero(self) -> None:
        assert values(ask("signups:never").per("day").last(3)) == [0, 0, 0]
        assert ask("signups:never").total() == 0
        CounterMeasure.objects.all().delete()
        registry.forget_strategies()
        assert values(ask("signups:never").per("day").last(3)) == [0, 0, 0]

    @pytest.mark.parametrize("by", PERIODS)
    def test_a_number_of_periods_has_the_present_one_in_it(self, by: str) -> None:
        objects.increment("every:a", at=NOW)
        found = series.of("every:a").per(by).last(25).list()
        assert len(found) == 25
        assert found[-1].start <= NOW < found[-1].end
        assert values(found) == [0] * 24 + [1]

    def test_a_time_begins_with_a_whole_period(self) -> None:
        count(MIDNIGHT - 7 * DAY, 5)
        count(MIDNIGHT - 7 * DAY - HOUR, 100)
        days = ask().per("day").last("7d").list()
        assert (len(days), days[0].start, days[0].value) == (8, MIDNIGHT - 7 * DAY, 5)
        assert ask().last("7d").list() == [Point(NOON - 7 * DAY, NOON + HOUR, 0)]
        assert ask().last("24h").list() == [Point(NOON - DAY, NOON + HOUR, 0)]

    def test_with_periods_the_moments_lie_within_the_first_and_the_last(self) -> None:
        count(MIDNIGHT, 1)
        count(MIDNIGHT - DAY, 2)
        asked = ask().per("day").between(MIDNIGHT - DAY + HOUR, MIDNIGHT + HOUR)
        assert values(asked) == [2, 1]
        assert values(ask().per("day").between(MIDNIGHT - DAY, MIDNIGHT)) == [2]

    def test_weeks_and_months_are_sums_of_days(self) -> None:
        for day in range(60):
            count(MIDNIGHT - day * DAY, 1 << day % 40, key="days:a")
        weeks = series.of("days:a").per("week").last(3).list()
        monday = datetime(2024, 4, 29, tzinfo=UTC)
        assert [week.start for week in weeks] == [monday - 14 * DAY, monday - 7 * DAY, monday]
        assert weeks[-1].value == sum(1 << day for day in range(5))
        months = series.of("days:a").per("month").last(2).list()
        assert values(months) == [sum(1 << d for d in range(3, 33)), 0b111]

    def test_weeks_do_not_make_up_months(self) -> None:
        # April begins with a Monday, May does not.
        with pytest.raises(InvalidPeriod, match="weeks stores week by the clocks of UTC"):
            series.of("weeks:a").per("month").last(2).list()
        assert values(series.of("weeks:a").per("week").last(2)) == [0, 0]

    def test_without_periods_all_of_the_time_is_one(self) -> None:
        count(NOON, 2)
        count(NOON - 3 * HOUR, 3)
        asked = ask().between(NOON - 3 * HOUR, NOON)
        assert asked.list() == [Point(NOON - 3 * HOUR, NOON, 3)]
        assert (asked.total(), ask().total()) == (3, 5)

    def test_two_moments_that_no_stored_period_begins_at_are_refused(self) -> None:
        """Else two calls side by side would count the hour between them twice."""
        for since, until in ((NOON - HOUR, NOW - HOUR), (NOW - 3 * HOUR, NOON)):
            with pytest.raises(InvalidPeriod, match="no hour that is kept of signups"):
                ask().between(since, until).total()
        # What is yet to come was not counted by anybody.
        assert ask().between(NOON - HOUR, NOW + DAY).total() == 0
        assert ask().between(NOON - HOUR).total() == 0

    def test_the_coarsest_period_is_read(self) -> None:
        objects.increment("every:a", 5, at=NOW - 40 * DAY)
        # Were days or hours read, they would be missed.
        CounterCell.objects.exclude(period__in=[3, 5]).delete()
        assert sum(values(series.of("every:a").per("month").last(3))) == 5
        CounterCell.objects.filter(period=3).delete()
        assert sum(values(series.of("every:a").per("month").last(3))) == 5
        assert series.of("every:a").total() == 5
        assert sum(values(series.of("every:a").per("day").last(60))) == 0

    def test_naive_moments_are_of_the_current_zone(self) -> None:
        count(NOON)
        local = NOON.astimezone(KOLKATA).replace(tzinfo=None)
        with timezone.override(KOLKATA):
            (hour,) = ask().per("hour").between(local, local + HOUR)
        assert (hour.start, hour.value) == (NOON, 1)

    def test_it_works_without_time_zones(self) -> None:
        with override_settings(USE_TZ=False, TIME_ZONE="Asia/Kolkata"):
            registry.forget_strategies()
            CounterMeasure.objects.all().delete()
            count(NOON.astimezone(KOLKATA).replace(tzinfo=None), 4)
            days = ask().per("day").last(2).list()
            begins = datetime(2024, 5, 3)  # noqa: DTZ001
            assert days[-1] == Point(begins, begins + DAY, 4)
            (hour,) = ask().per("hour").between(begins + 17 * HOUR, begins + 18 * HOUR)
            assert hour == Point(begins + 17 * HOUR, begins + 18 * HOUR, 4)

    def test_what_is_yet_to_come_is_refused(self) -> None:
        for asked in (ask(), ask().per("day")):
            with pytest.raises(InvalidPeriod, match="yet to come"):
                asked.between(NOON + DAY).list()
        assert ask().per("day").between(NOON + DAY, NOON + 2 * DAY).total() == 0

    def test_starts_are_those_of_the_points(self) -> None:
        asked = ask().per("day").last(3).tz(BERLIN)
        starts = asked.starts()
        assert starts == [*(point.start for point in asked), asked.list()[-1].end]
        assert {start.tzinfo for start in starts} == {BERLIN}

    def test_a_tag_may_have_any_name(self) -> None:
        with pytest.raises(InvalidTags, match="'self' is not declared"):
            ask().where(**{"self": "x"})

    def test_as_of_is_before_what_is_read(self) -> None:
        before, moment = clock.now(), ask().as_of
        assert moment is not None
        assert before <= moment <= clock.now()


class TestZones:
    def test_another_zone_whose_days_are_sums_of_hours(self) -> None:
        midnight = datetime(2024, 5, 3, tzinfo=BERLIN)
        count(midnight, 1)
        count(midnight - HOUR, 10)
        days = ask().per("day").tz("Europe/Berlin").last(2).list()
        assert values(days) == [10, 1]
        assert days[-1].start == midnight
        assert days[-1].start.utcoffset() == 2 * HOUR

    def test_days_cannot_be_those_of_another_zone(self) -> None:
        with pytest.raises(InvalidPeriod, match="days stores day by the clocks of UTC"):
            series.of("days:a").per("day").tz(BERLIN).last(2).list()
        # Half an hour beside: hours of UTC cannot tell.
        with pytest.raises(InvalidPeriod, match="do not begin where each hour of Asia/Kolkata"):
            ask().per("hour").tz(KOLKATA).last(2).list()
        assert len(series.of("spread:a").per("hour").tz(KOLKATA).last(2).list()) == 2

    def test_the_zone_is_that_of_the_measure_for_ever(self) -> None:
        with override_settings(TIME_ZONE="Europe/Berlin"):
            registry.forget_strategies()
            CounterMeasure.objects.filter(name="days").delete()
            count(datetime(2024, 5, 3, tzinfo=BERLIN), 7, key="days:a")
        with timezone.override(KOLKATA):
            (day,) = series.of("days:a").per("day").last(1)
        assert day == Point(
            datetime(2024, 5, 3, tzinfo=BERLIN), datetime(2024, 5, 4, tzinfo=BERLIN), 7
        )

    def test_days_on_which_clocks_are_set(self) -> None:
        for hour in range(47):
            count(datetime(2024, 3, 30, tzinfo=BERLIN).astimezone(UTC) + hour * HOUR)
        since = datetime(2024, 3, 30, tzinfo=BERLIN)
        days = ask().per("day").tz(BERLIN).between(since, since + 2 * DAY).list()
        assert values(days) == [24, 23]


class TestRetention:
    def test_coarser_periods_answer_for_what_finer_ones_do_not_keep(self) -> None:
        count(NOON - 20 * DAY, 3, key="kept:a")
        assert sum(values(series.of("kept:a").per("day").last(30))) == 3
        assert series.of("kept:a").total() == 3
        assert series.of("kept:a").last("30d").total() == 3

    def test_what_is_not_kept_is_refused(self) -> None:
        asked = series.of("kept:a").per("hour")
        assert len(asked.last("7d").list()) == 169
        with pytest.raises(HistoryNotKept) as refused:
            asked.last("8d").list()
        assert refused.value.since == NOON - 7 * DAY
        assert "kept from 2024-04-26 12:00:00+00:00 on" in str(refused.value)
        assert len(asked.between(refused.value.since).list()) == 169
        for broken in (series.of("short:a"), series.of("short:a").last("30d")):
            with pytest.raises(HistoryNotKept):
                broken.total()

    def test_what_only_finer_periods_can_tell_is_not_told_by_coarser_ones(self) -> None:
        """Days of Berlin are sums of hours of UTC, and of no days."""
        with pytest.raises(HistoryNotKept):
            series.of("kept:a").per("day").tz(BERLIN).last(30).list()


class TestHistory:
    def test_it_is_a_shorthand_for_the_series(self) -> None:
        count(NOON, 2)
        count(NOON - HOUR, 3)
        found = series.history("signups:a", since=NOON - HOUR, until=NOW)
        assert found == [
            Bucket(NOON - HOUR, NOON, 3, None),
            Bucket(NOON, NOON + HOUR, 2, None),
        ]
        assert sum(bucket.change for bucket in series.history("signups:a")) == 5
        assert sum(bucket.change for bucket in series.history("signups:a", "month")) == 5
        assert series.history("signups:a", since=NOW, until=NOW) == []
        day = async_to_sync(series.ahistory)("signups:a", "day", tz=BERLIN)[-1]
        assert (day.start, day.change) == (datetime(2024, 5, 3, tzinfo=BERLIN), 5)

    def test_it_is_never_zero_for_what_is_not_kept(self) -> None:
        with pytest.raises(HistoryNotKept):
            series.history("short:a", since=NOW - 30 * DAY)
        with pytest.raises(InvalidPeriod):
            series.history("days:a", by="hour")
