"""The promises of named exact counters, one caller at a time."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from threading import Thread
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from django_counters import clock
from django_counters.exceptions import (
    CeilingExceeded,
    CounterOverflow,
    InsufficientCount,
    InvalidDelta,
    InvalidKey,
    UnsupportedConsistency,
)
from django_counters.models import Counter
from django_counters.testing import assert_counts, override_counters
from django_counters.types import INT8, Shortfall

pytestmark = pytest.mark.django_db
LOWEST, HIGHEST = INT8


def queries(do: Callable[[], Any]) -> int:
    with CaptureQueriesContext(connection) as captured:
        do()
    return len(captured)


def test_a_counter_starts_at_zero_and_returns_its_new_value() -> None:
    assert Counter.objects.value("a") == 0
    assert Counter.objects.increment("a") == 1
    assert Counter.objects.increment("a", 5) == 6
    assert Counter.objects.decrement("a", 2) == 4
    assert Counter.objects.increment("a", -10) == -6
    assert Counter.objects.value("a") == -6


def test_each_call_is_one_statement() -> None:
    Counter.objects.increment_many({f"k:{i}": 1 for i in range(500)})
    assert queries(lambda: Counter.objects.increment("new")) == 1
    assert queries(lambda: Counter.objects.increment("new")) == 1
    assert queries(lambda: Counter.objects.decrement("new", floor=0)) == 1
    assert queries(lambda: Counter.objects.increment_many({"b": 1, "a": 2})) == 1
    assert queries(lambda: Counter.objects.value("a")) == 1
    assert queries(lambda: Counter.objects.values_of(f"k:{i}" for i in range(500))) == 1


def test_the_time_of_the_last_change_is_kept() -> None:
    before = clock.now()
    Counter.objects.increment("a")
    created = Counter.objects.get(key="a").updated_at
    Counter.objects.increment_many({"a": 1, "b": 1})
    changed = Counter.objects.get(key="a").updated_at
    # The database's own clock; SQLite's has milliseconds.
    assert before - timedelta(milliseconds=1) <= created <= changed <= clock.now()


def test_many_are_changed_together() -> None:
    assert Counter.objects.increment_many({"b": 2, "a": -1}) == {"a": -1, "b": 2}
    assert Counter.objects.decrement_many({"b": 1, "c": 1}) == {"b": 1, "c": -1}
    assert Counter.objects.increment_many({}) == {}
    assert_counts({"a": -1, "b": 1, "c": -1})


def test_values_of_keys_that_were_never_counted_are_zero() -> None:
    Counter.objects.increment("a")
    assert Counter.objects.values_of(["b", "a", "a"]) == {"b": 0, "a": 1}
    assert Counter.objects.values_of([]) == {}


def test_any_printable_text_is_kept_as_it_is() -> None:
    keys = ["%s", "%", "a*b{c}[d]", "{1,2}", '"quoted"', "'", "\\", "größe:Ω", "🎉", "NULL", "a,b"]
    Counter.objects.increment_many(dict.fromkeys(keys, 2))
    for key in keys:
        assert Counter.objects.increment(key) == 3
    assert Counter.objects.values_of(keys) == dict.fromkeys(keys, 3)
    assert set(Counter.objects.values_list("key", flat=True)) == set(keys)


class TestFloor:
    def test_a_value_never_falls_below_it(self) -> None:
        Counter.objects.increment("stock", 5)
        assert Counter.objects.decrement("stock", 3, floor=0) == 2
        with pytest.raises(InsufficientCount) as caught:
            Counter.objects.decrement("stock", 3, floor=0)
        error = caught.value
        assert (error.key, error.requested, error.available, error.floor) == ("stock", 3, 2, 0)
        assert error.shortfalls == (Shortfall("stock", 3, 2, 0),)
        assert Counter.objects.decrement("stock", 2, floor=0) == 0

    def test_what_was_never_counted_has_nothing_to_give(self) -> None:
        with pytest.raises(InsufficientCount) as caught:
            Counter.objects.decrement("stock", floor=0)
        assert caught.value.available == 0
        assert not Counter.objects.filter(key="stock").exists()

    def test_available_is_what_stands_above_the_floor(self) -> None:
        Counter.objects.increment("stock", 5)
        with pytest.raises(InsufficientCount) as caught:
            Counter.objects.decrement("stock", 4, floor=2)
        assert caught.value.available == 3

    def test_a_negative_floor_is_an_overdraft(self) -> None:
        assert Counter.objects.decrement("credit", 10, floor=-10) == -10
        with pytest.raises(InsufficientCount):
            Counter.objects.decrement("credit", floor=-10)

    def test_a_value_below_it_may_rise(self) -> None:
        Counter.objects.decrement("a", 5)
        assert Counter.objects.increment("a", floor=0) == -4

    @override_counters(stock={"FLOOR": 0})
    def test_a_namespace_declares_it_and_a_call_cannot_widen_it(self) -> None:
        Counter.objects.increment("stock:a", 2)
        for floor in (None, -5):
            with pytest.raises(InsufficientCount):
                Counter.objects.decrement("stock:a", 3, floor=floor)
        with pytest.raises(InsufficientCount):
            Counter.objects.decrement("stock:a", 2, floor=1)
        with pytest.raises(InsufficientCount):
            Counter.objects.increment("stock:a", -3)
        assert Counter.objects.decrement("stock:a", 2) == 0


class TestCeiling:
    def test_a_value_never_rises_above_it(self) -> None:
        assert Counter.objects.increment("quota", 8, ceiling=10) == 8
        with pytest.raises(CeilingExceeded) as caught:
            Counter.objects.increment("quota", 3, ceiling=10)
        error = caught.value
        assert (error.key, error.requested, error.available, error.ceiling) == ("quota", 3, 2, 10)
        assert Counter.objects.increment("quota", 2, ceiling=10) == 10

    def test_a_new_counter_obeys_it(self) -> None:
        with pytest.raises(CeilingExceeded):
            Counter.objects.increment("quota", 11, ceiling=10)
        assert not Counter.objects.exists()

    @override_counters(quota={"CEILING": 10})
    def test_a_namespace_declares_it(self) -> None:
        with pytest.raises(CeilingExceeded):
            Counter.objects.increment("quota:a", 11)
        with pytest.raises(CeilingExceeded):
            Counter.objects.increment_many({"quota:a": 11, "free": 1})
        assert not Counter.objects.exists()


class TestCart:
    @pytest.fixture(autouse=True)
    def _bounds(self, override_counters: Callable[..., None]) -> None:
        override_counters(stock={"FLOOR": 0}, quota={"CEILING": 10})

    def test_all_or_nothing_and_every_shortfall_is_listed(self) -> None:
        Counter.objects.increment_many({"stock:a": 5, "stock:b": 1, "stock:c": 9})
        with pytest.raises(InsufficientCount) as caught:
            Counter.objects.decrement_many({"stock:a": 6, "stock:b": 1, "stock:new": 2})
        assert set(caught.value.shortfalls) == {
            Shortfall("stock:a", 6, 5, 0),
            Shortfall("stock:new", 2, 0, 0),
        }
        assert_counts({"stock:a": 5, "stock:b": 1, "stock:new": 0})
        assert not Counter.objects.filter(key="stock:new").exists()

    def test_the_callers_transaction_goes_on_after_a_refusal(self) -> None:
        with transaction.atomic():
            Counter.objects.increment("before")
            with pytest.raises(InsufficientCount):
                Counter.objects.decrement_many({"stock:a": 1, "stock:b": 1})
            with pytest.raises(InsufficientCount):
                Counter.objects.decrement("stock:a")
            Counter.objects.increment("after")
        assert_counts({"before": 1, "after": 1})

    def test_bounded_and_free_counters_mix(self) -> None:
        Counter.objects.increment("stock:a", 2)
        values = Counter.objects.decrement_many({"stock:a": 2, "sold": -2, "quota:x": 5})
        assert values == {"stock:a": 0, "sold": 2, "quota:x": -5}

    def test_a_floor_speaks_before_a_ceiling(self) -> None:
        with pytest.raises(InsufficientCount) as caught:
            Counter.objects.increment_many({"quota:a": 11, "stock:a": -1})
        assert [shortfall.key for shortfall in caught.value.shortfalls] == ["stock:a"]


class TestRange:
    @pytest.mark.parametrize(
        ("edge", "by"), [(HIGHEST, 1), (LOWEST, -1), (HIGHEST, HIGHEST), (LOWEST, LOWEST)]
    )
    def test_a_sum_beyond_64_bits_is_refused(self, edge: int, by: int) -> None:
        assert Counter.objects.increment("a", edge) == edge
        with pytest.raises(CounterOverflow):
            Counter.objects.increment("a", by)
        with pytest.raises(CounterOverflow), transaction.atomic():
            Counter.objects.increment_many({"a": by, "b": 1})
        assert_counts({"a": edge, "b": 0})
        assert not isinstance(Counter.objects.value("a"), float)

    def test_the_whole_range_is_usable(self) -> None:
        assert Counter.objects.increment("a", LOWEST) == LOWEST
        assert Counter.objects.increment("a", HIGHEST) == -1
        assert Counter.objects.increment_many({"a": LOWEST + 1, "b": LOWEST}) == {
            "a": LOWEST,
            "b": LOWEST,
        }
        assert Counter.objects.increment_many({"a": HIGHEST, "b": HIGHEST}) == {"a": -1, "b": -1}

    def test_bounds_at_the_edge(self) -> None:
        assert Counter.objects.increment("a", 1, ceiling=HIGHEST, floor=LOWEST) == 1
        with pytest.raises(CeilingExceeded):
            Counter.objects.increment("b", HIGHEST, ceiling=LOWEST)
        with pytest.raises(InsufficientCount):
            Counter.objects.decrement("b", HIGHEST, floor=HIGHEST)


class TestTransactions:
    def test_a_rolled_back_increment_is_not_counted(self) -> None:
        with pytest.raises(ZeroDivisionError), transaction.atomic():
            Counter.objects.increment("a")
            Counter.objects.increment_many({"a": 1, "b": 1})
            raise ZeroDivisionError
        assert_counts({"a": 0, "b": 0})

    def test_a_savepoint_takes_its_increments_with_it(self) -> None:
        with transaction.atomic():
            Counter.objects.increment("a")
            with pytest.raises(ZeroDivisionError), transaction.atomic():
                Counter.objects.increment("a", 10)
                Counter.objects.increment_many({"a": 100, "b": 1})
                raise ZeroDivisionError
            Counter.objects.increment("a")
        assert_counts({"a": 2, "b": 0})

    def test_an_overflow_leaves_the_transaction_usable(self) -> None:
        Counter.objects.increment("a", HIGHEST)
        with transaction.atomic():
            with pytest.raises(CounterOverflow):
                Counter.objects.increment("a")
            Counter.objects.increment("b")
        assert_counts({"b": 1})


class TestBadInput:
    @pytest.mark.parametrize("key", ["", "a b", None, 5, "\ud800", "x" * 201])
    def test_no_call_takes_a_bad_key(self, key: Any) -> None:
        objects = Counter.objects
        for call in (objects.increment, objects.decrement, objects.value, objects.read):
            with pytest.raises(InvalidKey):
                call(key)
        with pytest.raises(InvalidKey):
            objects.values_of(["a", key])
        with pytest.raises(InvalidKey):
            objects.increment_many({"a": 1, key: 1})
        assert not objects.exists()

    @pytest.mark.parametrize("delta", [True, 1.0, "1", None, 0, 2**63])
    def test_no_call_takes_a_bad_delta(self, delta: Any) -> None:
        objects = Counter.objects
        for call in (objects.increment, objects.decrement):
            with pytest.raises(InvalidDelta):
                call("a", delta)
        for many in (objects.increment_many, objects.decrement_many):
            with pytest.raises(InvalidDelta):
                many({"a": 1, "b": delta})
        assert not objects.exists()

    @pytest.mark.parametrize("bound", [True, 1.0, "1", 2**63])
    def test_no_call_takes_a_bad_bound(self, bound: Any) -> None:
        with pytest.raises(InvalidDelta):
            Counter.objects.increment("a", ceiling=bound)
        with pytest.raises(InvalidDelta):
            Counter.objects.decrement("a", floor=bound)

    def test_many_take_a_mapping(self) -> None:
        with pytest.raises(InvalidDelta, match="mapping"):
            Counter.objects.increment_many([("a", 1)])  # type: ignore[arg-type]

    def test_a_single_key_is_no_list_of_keys(self) -> None:
        with pytest.raises(InvalidKey):
            Counter.objects.values_of("abc")


class TestReading:
    def test_it_says_what_it_knows(self) -> None:
        Counter.objects.increment("a", 3)
        before = clock.now()
        reading = Counter.objects.read("a")
        assert (reading.value, reading.total, reading.pending) == (3, 3, 0)
        assert reading.consistency == "exact"
        assert before <= reading.as_of <= clock.now()

    def test_a_consistency_that_is_not_offered_is_refused(self) -> None:
        with pytest.raises(UnsupportedConsistency, match="exact"):
            Counter.objects.read("a", consistency="cached")


class TestQueryset:
    def test_it_changes_all_its_rows(self) -> None:
        Counter.objects.increment_many({"likes:a": 1, "likes:b": 2, "views:a": 3})
        assert Counter.objects.filter(key__startswith="likes:").increment(5) == 2
        assert Counter.objects.filter(value__gt=6).decrement(1) == 1
        assert_counts({"likes:a": 6, "likes:b": 6, "views:a": 3})
        assert Counter.objects.none().increment() == 0

    @override_counters(stock={"FLOOR": 0})
    def test_bounds_of_namespaces_hold(self) -> None:
        Counter.objects.increment_many({"stock:a": 5, "stock:b": 1})
        with pytest.raises(InsufficientCount) as caught:
            Counter.objects.filter(key__startswith="stock:").decrement(2)
        assert caught.value.shortfalls == (Shortfall("stock:b", 2, 1, 0),)
        assert_counts({"stock:a": 5, "stock:b": 1})


def test_a_saved_instance_does_not_overwrite_newer_counts() -> None:
    Counter.objects.increment("a")
    stale = Counter.objects.get(key="a")
    Counter.objects.increment("a", 10)
    stale.save()
    stale.save(update_fields=["value"])
    Counter.objects.bulk_update([stale], ["value"])
    assert_counts({"a": 11})


@pytest.mark.postgres
@pytest.mark.django_db(transaction=True)
def test_nobody_is_refused_while_there_is_enough() -> None:
    """A delivery that arrives between the refusal and its reason is sold, not refused."""
    Counter.objects.increment("stock")

    def deliver() -> None:
        try:
            Counter.objects.increment("stock", 10)
        finally:
            connection.close()

    def after_the_first_update(execute: Any, sql: str, *rest: Any) -> Any:
        result = execute(sql, *rest)
        if "django_counters_add" in sql and not threads:
            threads.append(Thread(target=deliver))
            threads[0].start()
            threads[0].join()
        return result

    threads: list[Thread] = []
    with connection.execute_wrapper(after_the_first_update):
        assert Counter.objects.decrement("stock", 5, floor=0) == 6


@pytest.mark.django_db(transaction=True)
def test_every_call_has_its_async_twin() -> None:
    async def calls() -> None:
        objects = Counter.objects
        assert await objects.aincrement("a", 5) == 5
        assert await objects.adecrement("a", 2) == 3
        assert await objects.aincrement_many({"b": 1, "a": 1}) == {"a": 4, "b": 1}
        assert await objects.adecrement_many({"b": 1}) == {"b": 0}
        assert await objects.avalue("a") == 4
        assert await objects.avalues_of(["a", "b"]) == {"a": 4, "b": 0}
        assert (await objects.aread("a")).value == 4
        assert await objects.filter(key="a").aincrement(2) == 1
        assert await objects.filter(key="a").adecrement() == 1
        with pytest.raises(InsufficientCount):
            await objects.adecrement("a", 6, floor=0)

    async_to_sync(calls)()
    assert_counts({"a": 5})
