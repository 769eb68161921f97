"""A counter comes into the ledger and leaves it while it runs: values are exact all the time."""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations
from typing import Any

import pytest
from django.db import connection, transaction

from django_counters import clock
from django_counters.exceptions import CeilingExceeded, CounterOverflow, InsufficientCount
from django_counters.models import Counter, CounterDelta, CounterShard
from django_counters.testing import assert_counts, override_counters
from django_counters.tokens import mint
from django_counters.types import INT8, Shortfall
from django_counters.upkeep.doctor import examine
from django_counters.upkeep.verify import verify
from tests.settling import roll_up

pytestmark = pytest.mark.django_db
LOWEST, HIGHEST = INT8
STRATEGIES: dict[str, dict[str, Any]] = {
    "exact": {"STRATEGY": "exact"},
    "combined": {"STRATEGY": "exact", "OPTIONS": {"combine": True}},
    "ledger": {"STRATEGY": "ledger"},
    "sharded": {"STRATEGY": "sharded"},
}
ORDERS = [*permutations(["exact", "ledger", "sharded"]), ("ledger", "combined", "ledger")]


def declared(strategy: str) -> override_counters:
    return override_counters(n=STRATEGIES[strategy])


def bounded() -> override_counters:
    return override_counters(n={"FLOOR": 0, "CEILING": 20})


@pytest.fixture
def _switched() -> None:
    """Five in the total, three in the ledger, four in shards; by now the namespace is exact."""
    Counter.objects.increment("n:a", 5)
    CounterDelta.objects.append("n:a", 3)
    CounterShard.objects.increment("n:a", 4)


@pytest.mark.usefixtures("_switched")
class TestExact:
    def test_reading(self) -> None:
        assert Counter.objects.value("n:a") == 12
        assert Counter.objects.values_of(["n:a", "n:b"]) == {"n:a": 12, "n:b": 0}
        reading = Counter.objects.read("n:a")
        assert (reading.value, reading.total, reading.pending) == (12, 5, 7)

    def test_a_change_returns_the_whole_value(self) -> None:
        assert Counter.objects.increment("n:a") == 13
        assert Counter.objects.increment("n:a", 5) == 18
        assert Counter.objects.decrement("n:a", 20) == -2
        assert Counter.objects.increment_many({"n:a": 1, "b": 1}) == {"n:a": -1, "b": 1}
        assert Counter.objects.filter(key="n:a").increment(3) == 1
        assert CounterShard.objects.increment("n:a", 4) == 6
        assert_counts({"n:a": 6})

    def test_a_floor_is_asked_of_the_whole_value(self) -> None:
        with bounded():
            with pytest.raises(InsufficientCount) as caught:
                Counter.objects.decrement("n:a", 13)
            assert caught.value.shortfalls == (Shortfall("n:a", 13, 12, 0),)
            # More than the total alone, and the rest: the total itself may be negative.
            assert Counter.objects.decrement("n:a", 8) == 4
            assert Counter.objects.decrement("n:a", 4) == 0
            with pytest.raises(InsufficientCount):
                Counter.objects.decrement("n:a")

    def test_a_ceiling_is_asked_of_the_whole_value(self) -> None:
        with bounded():
            with pytest.raises(CeilingExceeded) as caught:
                Counter.objects.increment("n:a", 9)
            assert caught.value.available == 8
            assert Counter.objects.increment("n:a", 8) == 20

    def test_a_cart(self) -> None:
        with bounded():
            with pytest.raises(InsufficientCount) as caught:
                Counter.objects.decrement_many({"n:a": 13, "n:b": 1, "free": 1})
            assert set(caught.value.shortfalls) == {
                Shortfall("n:a", 13, 12, 0),
                Shortfall("n:b", 1, 0, 0),
            }
            values = Counter.objects.decrement_many({"n:a": 12, "free": 1})
        assert values == {"n:a": 0, "free": -1}

    def test_a_refusal_leaves_the_callers_transaction_usable(self) -> None:
        with bounded(), transaction.atomic():
            with pytest.raises(InsufficientCount):
                Counter.objects.decrement("n:a", 13)
            assert Counter.objects.decrement("n:a", 12) == 0

    def test_what_is_left_is_found(self) -> None:
        found = {finding.subject: finding.rows for finding in examine()}
        assert found == {"n": 1, "ledger": 1}


APPENDS: dict[str, Callable[[], Any]] = {
    "one": lambda: CounterDelta.objects.append("n:a", 3),
    "once": lambda: CounterDelta.objects.append("n:a", 3, token=mint(clock.utc())),
    "text": lambda: CounterDelta.objects.append("n:a", 3, token="order-17"),
    "many": lambda: CounterDelta.objects.append_many([("n:a", 2), ("n:a", 1)]),
    "many once": lambda: CounterDelta.objects.append_many([("n:a", 3, mint(clock.utc()))]),
    "copy": lambda: CounterDelta.objects.append_many([("n:a", 3)], copy=True),
}


@pytest.mark.parametrize("way", APPENDS)
class TestFirstEntry:
    """From its first entry on, in whatever way that comes, the ledger is asked for a counter."""

    def test_of_a_counter_that_has_a_total(self, way: str) -> None:
        Counter.objects.increment("n:a", 5)
        APPENDS[way]()
        row = Counter.objects.get()
        assert (row.value, row.outside) == (5, 5)
        assert Counter.objects.value("n:a") == 8
        assert Counter.objects.values_of(["n:a"]) == {"n:a": 8}
        assert Counter.objects.increment("n:a") == 9

    def test_of_a_new_one(self, way: str) -> None:
        APPENDS[way]()
        row = Counter.objects.get()
        assert (row.value, row.outside) == (0, 0)
        assert Counter.objects.value("n:a") == 3
        assert Counter.objects.increment_many({"n:a": 1}) == {"n:a": 4}


class TestTail:
    def test_a_negative_one_is_not_there_to_sell(self) -> None:
        Counter.objects.increment("n:a", 5)
        CounterDelta.objects.append("n:a", -4)
        with bounded():
            with pytest.raises(InsufficientCount) as caught:
                Counter.objects.decrement("n:a", 2)
            assert caught.value.available == 1
            assert Counter.objects.decrement("n:a") == 0

    def test_one_that_comes_to_nothing_is_nothing(self) -> None:
        Counter.objects.increment("n:a", 5)
        CounterDelta.objects.append_many([("n:a", 7), ("n:a", -7)])
        with bounded():
            assert Counter.objects.decrement("n:a", 5) == 0
            with pytest.raises(InsufficientCount):
                Counter.objects.decrement("n:a")

    def test_a_counter_may_have_nothing_else(self) -> None:
        CounterDelta.objects.append_many([("n:a", 7), ("n:b", 7), ("n:c", 7), ("n:d", 7)])
        with bounded():
            assert Counter.objects.decrement("n:a", 7) == 0
            with pytest.raises(InsufficientCount):
                Counter.objects.decrement("n:b", 8)
            assert Counter.objects.increment_many({"n:c": 1}) == {"n:c": 8}
        assert CounterShard.objects.increment("n:d") == 8
        assert_counts({"n:a": 0, "n:b": 7, "n:c": 8, "n:d": 8})

    @pytest.mark.parametrize("sign", [1, -1])
    def test_the_range_is_that_of_the_whole_value(self, sign: int) -> None:
        edge = HIGHEST if sign > 0 else LOWEST
        Counter.objects.increment("n:a", edge - sign * 5)
        CounterDelta.objects.append("n:a", sign * 5)
        for strategy in ("exact", "sharded"):
            with declared(strategy):
                with pytest.raises(CounterOverflow), transaction.atomic():
                    Counter.objects.increment("n:a", sign)
                with pytest.raises(CounterOverflow), transaction.atomic():
                    Counter.objects.increment_many({"n:a": sign, "n:b": 1})
        assert_counts({"n:a": edge, "n:b": 0})
        assert all(type(value) is int for value in Counter.objects.values_list("value", flat=True))


@pytest.mark.skipif(connection.vendor == "sqlite", reason="no integers wider than 64 bits")
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("strategy", ["exact", "sharded"])
@pytest.mark.parametrize("many", [False, True])
def test_what_came_otherwise_may_be_larger_than_the_value(
    sign: int, strategy: str, many: bool
) -> None:
    """The value fits all the time; what it would be without its entries need not."""
    edge = HIGHEST if sign > 0 else LOWEST
    Counter.objects.increment("n:a", edge - sign * 10)
    CounterDelta.objects.append("n:a", -sign * 100)
    roll_up()
    with declared(strategy):
        deltas = {"n:a": sign * 50, "n:b": 1} if many else {"n:a": sign * 50}
        assert Counter.objects.increment_many(deltas)["n:a"] == edge - sign * 60
    roll_up()
    assert Counter.objects.get(key="n:a").value == edge - sign * 60
    assert verify().drifts == []


class TestBackAndForth:
    @pytest.mark.parametrize("order", ORDERS, ids="-".join)
    def test_values_are_exact_all_the_time(self, order: tuple[str, ...]) -> None:
        expected = 0
        for by, strategy in enumerate(order * 2, 1):
            with declared(strategy):
                for _ in range(2):
                    expected += by
                    value = Counter.objects.increment("n:a", by)
                    if strategy != "ledger":
                        assert value == expected
                    assert_counts({"n:a": expected})

    @pytest.mark.django_db(transaction=True)
    @pytest.mark.parametrize("order", ORDERS, ids="-".join)
    def test_so_they_are_with_rollups_in_between(self, order: tuple[str, ...]) -> None:
        expected = 0
        for by, strategy in enumerate(order * 2, 1):
            with declared(strategy):
                for _ in range(2):
                    Counter.objects.increment("n:a", by)
                    expected += by
                    assert_counts({"n:a": expected})
            if by % 2:
                roll_up()
                assert_counts({"n:a": expected})
                assert verify().drifts == []
        roll_up()
        assert Counter.objects.get(key="n:a").value == expected
        assert (examine(), verify().drifts) == ([], [])

    @pytest.mark.django_db(transaction=True)
    def test_only_entries_count_as_those_of_the_ledger(self) -> None:
        """What came otherwise is known by its sum, so that the rest can be verified."""
        Counter.objects.increment("n:a", 5)
        with declared("ledger"):
            Counter.objects.increment("n:a", 3)
        Counter.objects.increment("n:a", 10)
        with declared("sharded"):
            Counter.objects.increment("n:a", 100)
        Counter.objects.increment_many({"n:a": 1000})
        roll_up()
        row = Counter.objects.get(key="n:a")
        assert (row.value, row.outside) == (1118, 1115)
        assert verify().drifts == []

    @pytest.mark.django_db(transaction=True)
    def test_a_floor_holds_through_a_rollup(self) -> None:
        with declared("ledger"):
            Counter.objects.increment("n:a", 8)
        with bounded():
            assert Counter.objects.decrement("n:a", 3) == 5
            roll_up()
            with pytest.raises(InsufficientCount) as caught:
                Counter.objects.decrement("n:a", 6)
            assert caught.value.available == 5
            assert Counter.objects.decrement("n:a", 5) == 0
        assert Counter.objects.get(key="n:a").value == 0
