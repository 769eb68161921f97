"""The light history: what is recorded of totals, by whom, and for how long."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from django.db import connection, connections
from django.test import override_settings

from django_counters import clock
from django_counters.contrib import series
from django_counters.contrib.series.models import CounterSample
from django_counters.contrib.series.options import recorded_period
from django_counters.contrib.series.recording import prune_history, record_history
from django_counters.models import Counter
from django_counters.registry import registry
from django_counters.testing import override_counters
from django_counters.upkeep import rollup

pytestmark = pytest.mark.django_db
NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
Samples = list[tuple[str, datetime, int]]


class Clock:
    """A moment that a test moves on."""

    def __init__(self) -> None:
        self.now = NOON

    def utc(self) -> datetime:
        return self.now


@pytest.fixture
def time(monkeypatch: pytest.MonkeyPatch) -> Iterator[Clock]:
    clock_of_test = Clock()
    monkeypatch.setattr(clock, "utc", clock_of_test.utc)
    with override_settings(TIME_ZONE="UTC"):
        yield clock_of_test


@pytest.fixture(autouse=True)
def _recorded(override_counters: Callable[..., None]) -> None:
    override_counters(
        hits={"HISTORY": "1h"}, sales={"HISTORY": "1d"}, likes={"STRATEGY": "sharded"}, plain={}
    )


def samples(using: str = "default") -> Samples:
    rows = CounterSample.objects.using(using).order_by("key", "moment")
    return [(row.key, clock.meant(row.moment), row.value) for row in rows]


class TestPeriods:
    def test_the_present_period_follows_the_total_until_it_is_over(self, time: Clock) -> None:
        for minutes, value in ((0, 1), (20, 2), (59, 3), (60, 4), (119, 5)):
            time.now = NOON + minutes * MINUTE
            Counter.objects.increment("hits:a")
            assert record_history() == 1
            assert samples()[-1][2] == value
        assert samples() == [("hits:a", NOON, 3), ("hits:a", NOON + HOUR, 5)]

    def test_what_did_not_change_is_not_written(self, time: Clock) -> None:
        Counter.objects.increment_many({"hits:a": 1, "hits:b": 1})
        assert record_history() == 2
        assert record_history() == 0
        time.now = NOON + HOUR
        Counter.objects.increment("hits:b")
        assert record_history() == 1
        assert samples() == [("hits:a", NOON, 1), ("hits:b", NOON, 1), ("hits:b", NOON + HOUR, 2)]

    def test_a_total_that_comes_back_is_written(self, time: Clock) -> None:
        Counter.objects.increment("hits:a", 5)
        record_history()
        time.now = NOON + HOUR
        Counter.objects.increment("hits:a", 2)
        record_history()
        Counter.objects.decrement("hits:a", 2)
        assert record_history() == 1
        assert samples() == [("hits:a", NOON, 5), ("hits:a", NOON + HOUR, 5)]

    @pytest.mark.parametrize("zone", ["Asia/Kolkata", "America/New_York"])
    def test_periods_begin_as_the_clocks_of_the_project_say(self, time: Clock, zone: str) -> None:
        time.now = NOON + 17 * MINUTE
        Counter.objects.increment_many({"hits:a": 1, "sales:a": 1})
        with override_settings(TIME_ZONE=zone):
            record_history()
            local = time.now.astimezone(ZoneInfo(zone))
            hour, day = (clock.meant(row.moment) for row in CounterSample.objects.order_by("key"))
        assert hour == local.replace(minute=0)
        assert day == local.replace(hour=0, minute=0)

    def test_it_works_without_time_zones(self, time: Clock) -> None:
        time.now = NOON + 17 * MINUTE
        with override_settings(USE_TZ=False, TIME_ZONE="Asia/Kolkata"):
            Counter.objects.increment("hits:a")
            record_history()
            assert CounterSample.objects.get().moment == datetime(2026, 11, 21, 17)  # noqa: DTZ001
            assert record_history() == 0


class TestWhich:
    def test_totals_are_recorded_and_not_what_waits(self) -> None:
        with override_counters(likes={"STRATEGY": "sharded", "HISTORY": "1h"}):
            Counter.objects.increment("likes:a", 4)
            assert record_history() == 0
            rollup()
            assert record_history() == 1
        assert [row[2] for row in samples()] == [4]

    def test_a_database_that_holds_no_counters_has_no_samples(self) -> None:
        class Elsewhere:
            def allow_migrate(self, db: str, app_label: str, **hints: Any) -> bool:
                return False

        Counter.objects.increment("hits:a")
        with override_settings(DATABASE_ROUTERS=[Elsewhere()]):
            assert record_history() == 0
            assert prune_history() == 0
        assert record_history() == 1


@pytest.mark.needs("history")
class TestForgetting:
    def sample(self, key: str, days: float) -> None:
        CounterSample.objects.create(key=key, moment=clock.now() - timedelta(days=days), value=1)

    def test_what_is_too_old_goes(self) -> None:
        for days in (1, 89, 91, 400):
            self.sample("hits:a", days)
        self.sample("hits:idle", 400)
        with override_counters(hits={"HISTORY": "1d"}):
            assert prune_history() == 1
            # The last of each tells what it had 90 days ago, and has if nothing came since.
            assert sorted(key for key, *_ in samples()) == ["hits:a"] * 3 + ["hits:idle"]
            assert prune_history() == 0
            assert series.of("hits:idle").per("day").last(30).total() == 0

    def test_each_namespace_says_for_how_long(self) -> None:
        keys = ("hits:a", "sales:a", "plain:a", "x", "gone:a")
        for key in keys:
            self.sample(key, 5)
            self.sample(key, 100)
        hits, sales = {"HISTORY": "1h", "HISTORY_DAYS": 4}, {"HISTORY": "1d", "HISTORY_DAYS": 400}
        with override_counters(hits=hits, sales=sales):
            assert prune_history() == 4
        left = ["gone:a", "hits:a", "plain:a", "sales:a", "sales:a", "x"]
        assert [key for key, *_ in samples()] == left


@pytest.mark.many_writers
@pytest.mark.django_db(transaction=True)
def test_any_number_at_once_leave_one_sample_that_is_right() -> None:
    keys = [f"hits:{number}" for number in range(200)]
    Counter.objects.increment_many(dict.fromkeys(keys, 1))

    def work(number: int) -> None:
        try:
            for _ in range(10):
                record_history()
                Counter.objects.increment_many(dict.fromkeys(keys[number::4], 1))
        finally:
            connections.close_all()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    record_history()
    found = samples()
    # At most two periods, if the hour was full meanwhile.
    assert {key for key, *_ in found} == set(keys)
    last = {key: value for key, _, value in found}
    assert last == dict.fromkeys(keys, 11)
    assert record_history() == 0


@pytest.mark.postgresql
@pytest.mark.django_db(transaction=True)
def test_a_run_waits_for_another_one_and_takes_no_snapshot_of_before(
    elsewhere: Callable[[Callable[[], Any]], Any],
) -> None:
    """Also where transactions keep one snapshot by default, which would end it with an error."""
    Counter.objects.increment("hits:a")
    with connection.cursor() as cursor:
        cursor.execute("SET default_transaction_isolation = 'repeatable read'")
    try:
        elsewhere(record_history)
        Counter.objects.increment("hits:a")
        assert record_history() == 1
    finally:
        with connection.cursor() as cursor:
            cursor.execute("RESET default_transaction_isolation")
    assert samples()[-1][2] == 2


def test_every_counter_is_recorded_by_the_policy_of_its_namespace(time: Clock) -> None:
    """What the statement goes by and what the registry goes by are the same."""
    keys = ("hits", "hits:", "hits:a", "hits:a:b", "hits;", "hit:a", "x", ":a", "default:a", "日:a")
    for key in keys:
        Counter.objects.create(key=key, value=1)
    beginnings = {"hour": NOON, "day": NOON - 12 * HOUR}
    with override_counters(default={"HISTORY": "1d"}, likes={}):
        assert record_history() == len(keys)
        expected = {key: beginnings[recorded_period(registry.policy(key).options)] for key in keys}
    assert {key: moment for key, moment, _ in samples()} == expected
