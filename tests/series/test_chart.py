"""How a counter went: the points of a chart, from entries and from recorded totals."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from django.test import override_settings

from django_counters import clock
from django_counters.contrib.series.admin import HOURS, recent_of
from django_counters.contrib.series.chart import Chart, charted, periods_of
from django_counters.contrib.series.models import CounterSample
from django_counters.models import Counter, CounterDelta, CounterPartition
from django_counters.reading import readings_of
from django_counters.tokens import mint
from tests.settling import roll_up

pytestmark = pytest.mark.django_db
NOW = datetime(2024, 5, 3, 12, 30, tzinfo=UTC)
NOON = NOW.replace(minute=0)
MIDNIGHT = NOW.replace(hour=0, minute=0)
HOUR, DAY, INSTANT = timedelta(hours=1), timedelta(days=1), timedelta(milliseconds=1)


@pytest.fixture(autouse=True)
def _now(monkeypatch: pytest.MonkeyPatch, override_counters: Callable[..., None]) -> Iterator[None]:
    monkeypatch.setattr(clock, "utc", lambda: NOW)
    override_counters(
        orders={"STRATEGY": "ledger"}, views={"HISTORY": "1h"}, sales={"HISTORY": "1d"}
    )
    with override_settings(TIME_ZONE="UTC"):
        yield


def entries(*given: tuple[datetime, int]) -> None:
    CounterDelta.objects.append_many([("orders:a", by, mint(moment)) for moment, by in given])


def sample(key: str, moment: datetime, value: int) -> None:
    CounterSample.objects.create(key=key, moment=clock.shown(moment), value=value)


def points(found: Chart) -> list[tuple[datetime, int, int]]:
    rows = zip(map(clock.meant, found.starts), found.values, found.totals, strict=True)
    return list(rows)


@pytest.mark.usefixtures("past")
class TestLedger:
    def test_each_hour_has_its_change_and_the_value_at_its_end(self) -> None:
        entries((NOON, 5), (NOON - INSTANT, -2), (NOON - 3 * HOUR, 10), (NOON - 2 * DAY, 100))
        found = charted("orders:a")
        assert (found.key, found.by, found.source) == ("orders:a", "hour", "ledger")
        assert list(found.starts) == [NOON - HOUR * hours for hours in range(23, -1, -1)]
        assert points(found)[-4:] == [
            (NOON - 3 * HOUR, 110, 10),
            (NOON - 2 * HOUR, 110, 0),
            (NOON - HOUR, 108, -2),
            (NOON, 113, 5),
        ]
        assert {value for _, value, _ in points(found)[:-4]} == {100}

    def test_what_begins_with_the_first_period_is_counted_once(self) -> None:
        first = NOON - 23 * HOUR
        entries((first, 3), (first - INSTANT, 4))
        assert points(charted("orders:a"))[0] == (first, 7, 3)

    def test_what_is_not_kept_is_left_out(self) -> None:
        entries((NOON, 5), (MIDNIGHT - 2 * DAY, 1), (MIDNIGHT - 3 * DAY, 2))
        kept_since = MIDNIGHT - 2 * DAY
        CounterPartition.objects.create(
            name="old",
            since=kept_since - DAY,
            until=kept_since,
            entries=0,
            delta_sum=0,
            sealed_at=NOW,
            dropped_at=NOW,
        )
        assert points(charted("orders:a", "day")) == [
            (MIDNIGHT - 2 * DAY, 3, 1),
            (MIDNIGHT - DAY, 3, 0),
            (MIDNIGHT, 8, 5),
        ]


@pytest.mark.django_db(transaction=True)
def test_what_is_rolled_up_makes_no_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    present = datetime.now(UTC)
    monkeypatch.setattr(clock, "utc", lambda: present)
    hour = present.replace(minute=0, second=0, microsecond=0)
    entries((hour, 5), (hour - 2 * HOUR, 3))
    before = charted("orders:a")
    roll_up()
    entries((hour, 1))
    after = charted("orders:a")
    assert Counter.objects.get(key="orders:a").value == 8
    assert points(after)[:-1] == points(before)[:-1]
    assert points(after)[-1] == (hour, 9, 6)


class TestRecorded:
    def test_a_period_without_a_sample_has_the_value_before(self) -> None:
        """Of the first one nobody knows how much of it was there before."""
        sample("views:a", NOON - 4 * HOUR, 10)
        sample("views:a", NOON - HOUR, 7)
        found = charted("views:a")
        assert (found.by, found.source) == ("hour", "recorded")
        assert points(found) == [
            (NOON - 3 * HOUR, 10, 0),
            (NOON - 2 * HOUR, 10, 0),
            (NOON - HOUR, 7, -3),
            (NOON, 7, 0),
        ]

    def test_what_was_recorded_earlier_is_where_it_begins(self) -> None:
        sample("views:a", NOON - 40 * DAY, 3)
        sample("views:a", NOON - 2 * DAY, 4)
        sample("views:a", NOON, 6)
        found = points(charted("views:a"))
        assert (len(found), found[0], found[-1]) == (24, (NOON - 23 * HOUR, 4, 0), (NOON, 6, 2))
        days = points(charted("views:a", "day"))
        assert (len(days), days[0]) == (30, (MIDNIGHT - 29 * DAY, 3, 0))
        assert days[-3:] == [(MIDNIGHT - 2 * DAY, 4, 1), (MIDNIGHT - DAY, 4, 0), (MIDNIGHT, 6, 2)]

    def test_days_are_those_of_the_project(self) -> None:
        kiritimati = ZoneInfo("Pacific/Kiritimati")
        midnight = datetime(2024, 5, 4, tzinfo=kiritimati)
        sample("sales:a", midnight, 5)
        sample("sales:a", midnight - DAY, 4)
        with override_settings(TIME_ZONE="Pacific/Kiritimati"):
            assert points(charted("sales:a")) == [(midnight, 5, 1)]

    def test_it_works_without_time_zones(self) -> None:
        with override_settings(USE_TZ=False):
            sample("views:a", NOON - HOUR, 5)
            found = charted("views:a")
        assert (found.starts, found.values) == ((NOON.replace(tzinfo=None),), (5,))

    @pytest.mark.django_db(databases=["default", "other"])
    def test_each_database_has_its_own(self) -> None:
        for hour, value in ((2, 3), (1, 5)):
            CounterSample.objects.using("other").create(
                key="views:a", moment=NOON - hour * HOUR, value=value
            )
        assert charted("views:a") == Chart("views:a", "hour")
        assert points(charted("views:a", using="other")) == [(NOON - HOUR, 5, 2), (NOON, 5, 0)]


class TestCounted:
    @pytest.fixture(autouse=True)
    def _by_period(self, override_counters: Callable[..., None]) -> None:
        override_counters(
            visits={"PER": ["hour", "day"], "KEEP": {"hour": 30}, "HISTORY": "1h"},
            daily={"PER": ["day"]},
            lately={"PER": ["hour"], "KEEP": {"hour": 3}},
            monthly={"PER": ["month"]},
        )

    def test_each_period_has_what_was_counted_in_it(self) -> None:
        Counter.objects.create(key="visits:a", value=100)
        for moment, by in ((NOON, 5), (NOON - 2 * HOUR, -2), (NOON - 3 * DAY, 10)):
            Counter.objects.increment("visits:a", by, at=moment)
        found = charted("visits:a")
        assert (found.by, found.source, len(found.starts)) == ("hour", "counted", 24)
        assert points(found)[-3:] == [
            (NOON - 2 * HOUR, 108, -2),
            (NOON - HOUR, 108, 0),
            (NOON, 113, 5),
        ]
        days = points(charted("visits:a", "day"))
        assert (len(days), days[-4], days[-1]) == (
            30,
            (MIDNIGHT - 3 * DAY, 110, 10),
            (MIDNIGHT, 113, 3),
        )

    def test_it_is_offered_what_is_stored(self) -> None:
        assert periods_of("visits:a") == ("hour", "day", "week", "month")
        assert periods_of("daily:a") == ("day", "week", "month")
        assert (charted("daily:a", "hour").by, charted("monthly:a", "hour").by) == ("day", "month")

    def test_what_is_not_kept_is_left_out(self) -> None:
        Counter.objects.increment("lately:a", 4, at=NOON - 2 * DAY)
        Counter.objects.increment("lately:a", 5, at=NOON)
        days = points(charted("lately:a", "day"))
        assert days == [(MIDNIGHT - 2 * DAY, 4, 4), (MIDNIGHT - DAY, 4, 0), (MIDNIGHT, 9, 5)]

    def test_a_list_has_the_last_hours_of_all(self) -> None:
        for key, by in (("visits:a", 5), ("visits:b", 7)):
            Counter.objects.increment(key, by, at=NOON - HOUR)
        Counter.objects.increment("visits:a", 1, at=NOON - 2 * DAY)
        lines = recent_of(readings_of(["visits:a", "visits:b"]), None)
        assert {key: line[-4:] for key, line in lines.items()} == {
            "visits:a": [1, 1, 6, 6],
            "visits:b": [0, 0, 7, 7],
        }
        assert {len(line) for line in lines.values()} == {HOURS + 1}
