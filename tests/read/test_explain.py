"""What a value was, and what it is made of."""

from __future__ import annotations

from datetime import UTC, date, timedelta
from typing import Any

import pytest
from asgiref.sync import async_to_sync

from django_counters import clock
from django_counters.contrib import series
from django_counters.errors import HistoryNotKept, InvalidKey, InvalidPeriod
from django_counters.models import Counter, CounterDelta, CounterPartition
from tests.series.test_history import KOLKATA, at, changes, count, hourly
from tests.settling import roll_up

pytestmark = pytest.mark.django_db


@pytest.mark.usefixtures("past")
class TestValueAt:
    def test_it_is_what_it_is_without_what_came_later(self) -> None:
        moments = [at(f"2024-05-01T1{hour}:00") for hour in range(3)]
        for by, moment in enumerate(moments, 1):
            count([moment], by=by)
        early = moments[0] - timedelta(milliseconds=1)
        assert Counter.objects.value_at("a", early) == 0
        assert [Counter.objects.value_at("a", moment) for moment in moments] == [1, 3, 6]
        assert Counter.objects.value_at("a", clock.now()) == 6

    @pytest.mark.parametrize("moment", [None, "2024-05-01", 0, date(2024, 5, 1)])
    def test_it_needs_a_moment(self, moment: Any) -> None:
        with pytest.raises(InvalidPeriod, match="a datetime is needed"):
            Counter.objects.value_at("a", moment)


class TestExplain:
    @pytest.mark.usefixtures("past")
    def test_the_last_entries_come_first(self) -> None:
        moments = [at("2024-05-01T10:00"), at("2024-05-03T10:00"), at("2024-05-02T10:00")]
        for by, moment in enumerate(moments, 1):
            count([moment], by=by)
        entries = Counter.objects.explain("a").entries
        # In the order in which they were written, whatever time they stand at.
        assert [entry.delta for entry in entries] == [3, 2, 1]
        assert [entry.created_at for entry in entries] == moments[::-1]
        assert {entry.kind for entry in entries} == {"increment"}
        tokens = set(CounterDelta.objects.values_list("token", flat=True))
        assert {entry.token for entry in entries} == tokens

    @pytest.mark.parametrize("last", [-1, 0, 1, 3, 10, 20])
    def test_there_are_as_many_as_are_asked_for(self, last: int) -> None:
        CounterDelta.objects.append_many([("a", by) for by in range(1, 13)])
        found = Counter.objects.explain("a", last=last)
        assert [entry.delta for entry in found.entries] == list(range(12, 0, -1))[: max(last, 0)]
        assert found.value == 78

    def test_no_bad_key(self) -> None:
        for call in (
            Counter.objects.explain,
            lambda key: Counter.objects.value_at(key, clock.now()),
        ):
            with pytest.raises(InvalidKey):
                call("a b")

    @pytest.mark.django_db(transaction=True)
    def test_a_rollup_moves_the_tail_into_the_total(self) -> None:
        Counter.objects.increment("a", 100)
        CounterDelta.objects.append("a", 7)
        roll_up()
        CounterDelta.objects.append("a", -2)
        found = Counter.objects.explain("a")
        assert (found.value, found.total, found.tail, found.outside) == (105, 107, -2, 100)
        assert [(entry.delta, entry.pending) for entry in found.entries] == [(-2, True), (7, False)]
        # What is asked of the entries does not depend on it.
        assert sum(changes(series.history("a"))) == 5
        assert Counter.objects.value_at("a", clock.now() - timedelta(days=1)) == 100


@pytest.mark.usefixtures("past")
class TestNotKept:
    """As after a drop of the partitions before the first of May."""

    @pytest.fixture(autouse=True)
    def _dropped(self) -> None:
        moment = at("2024-05-01")
        CounterPartition.objects.create(
            name="dropped",
            since=moment - timedelta(days=1),
            until=moment,
            entries=1,
            delta_sum=1,
            sealed_at=moment,
            dropped_at=moment,
        )

    def test_a_period_that_is_not_kept_as_a_whole_is_refused(self) -> None:
        count([at("2024-05-01T00:00"), at("2024-05-02T00:00"), at("2024-05-06T00:00")])
        for since, zone, by in (
            ("2024-05-02T00:00", UTC, "week"),
            ("2024-05-01T06:00", KOLKATA, "day"),
        ):
            with pytest.raises(HistoryNotKept) as caught:
                hourly(since, "2024-05-07", zone=zone, by=by)
            assert caught.value.since == at("2024-05-01")
        assert changes(hourly("2024-05-06", "2024-05-07", by="week")) == [1]


@pytest.mark.django_db(databases=["default", "other"])
def test_using_chooses_the_database() -> None:
    CounterDelta.objects.append("a", 1)
    CounterDelta.objects.append("a", 5, using="other")
    now = clock.now() + timedelta(seconds=1)
    for using, expected in (("default", 1), ("other", 5)):
        assert sum(changes(series.history("a", using=using))) == expected
        assert Counter.objects.value_at("a", now, using=using) == expected
        assert Counter.objects.explain("a", using=using).tail == expected


@pytest.mark.django_db(transaction=True)
def test_every_call_has_its_async_twin() -> None:
    hour = clock.utc().replace(minute=0, second=0, microsecond=0)
    count([hour - timedelta(minutes=50)])

    async def calls() -> None:
        since = hour - timedelta(hours=1)
        found = await series.ahistory("a", "hour", since=since, until=hour, tz=KOLKATA)
        assert changes(found) == [1, 0]
        assert await Counter.objects.avalue_at("a", since) == 0
        assert await Counter.objects.avalue_at("a", hour) == 1
        assert len((await Counter.objects.aexplain("a", last=1)).entries) == 1

    async_to_sync(calls)()
