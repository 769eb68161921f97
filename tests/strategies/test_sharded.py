"""The promises of sharded counters: values, shards, bounds, transactions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection, transaction

from django_counters.errors import (
    CounterOverflow,
    InvalidConfiguration,
    InvalidDelta,
    InvalidKey,
    UnsupportedBounds,
)
from django_counters.models import Counter, CounterShard
from django_counters.strategies.spread import MOST_ROWS
from django_counters.testing import assert_counts, override_counters
from django_counters.types import INT8

LOWEST, HIGHEST = INT8
SHARDED: dict[str, Any] = {
    "likes": {"STRATEGY": "sharded"},
    "one": {"STRATEGY": "sharded", "OPTIONS": {"shards": 1}},
    "four": {"STRATEGY": "sharded", "OPTIONS": {"shards": 4}},
    "stock": {"FLOOR": 0},
}
pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _sharded(override_counters: Callable[..., None]) -> None:
    override_counters(**SHARDED)


def shards(key: str) -> dict[int, int]:
    return dict(CounterShard.objects.filter(key=key).values_list("shard", "value"))


class TestShardKey:
    def test_the_same_one_always_leads_to_the_same_shard(self) -> None:
        for _ in range(5):
            Counter.objects.increment("likes:a", shard_key="ann")
        assert list(shards("likes:a").values()) == [5]
        for number in range(40):
            Counter.objects.increment("likes:a", shard_key=f"user {number}")
        assert len(shards("likes:a")) > 10
        assert all(0 <= shard < MOST_ROWS for shard in shards("likes:a"))
        assert_counts({"likes:a": 45})

    def test_its_shard_is_part_of_the_contract(self) -> None:
        """CRC-32 of the text: a server of another version must find the same row."""
        Counter.objects.increment("likes:a", shard_key="ann")
        Counter.objects.increment("four:a", shard_key="ann")
        Counter.objects.increment("likes:b", shard_key=456)
        assert list(shards("likes:a")) == [51]
        assert list(shards("four:a")) == [3]
        assert list(shards("likes:b")) == [49]


class TestCap:
    def test_shard_keys_stay_below_it(self) -> None:
        for number in range(50):
            Counter.objects.increment("four:a", shard_key=number)
        assert set(shards("four:a")) == {0, 1, 2, 3}
        assert_counts({"four:a": 50})

    def test_the_largest_one_works(self) -> None:
        def wide(shards: int) -> override_counters:
            return override_counters(wide={"STRATEGY": "sharded", "OPTIONS": {"shards": shards}})

        with wide(1025), pytest.raises(InvalidConfiguration, match="from 1 to 1024"):
            Counter.objects.increment("wide:a")
        with wide(1024):
            for number in range(100):
                Counter.objects.increment("wide:a", shard_key=number)
            assert max(shards("wide:a")) > MOST_ROWS
            assert_counts({"wide:a": 100})


@pytest.mark.parametrize("shard_key", [None, "ann"])
def test_shards_are_no_way_around_a_floor(shard_key: str | None) -> None:
    """`CounterShard.objects` serves any namespace, but not against its bounds."""
    Counter.objects.increment("stock:a", 2)
    with pytest.raises(UnsupportedBounds):
        CounterShard.objects.decrement("stock:a", 5, shard_key=shard_key)
    assert_counts({"stock:a": 2})


class TestRange:
    def test_the_total_counts_for_the_range(self) -> None:
        Counter.objects.increment("exact", HIGHEST)
        with pytest.raises(CounterOverflow):
            CounterShard.objects.increment("exact")
        assert_counts({"exact": HIGHEST})

    @pytest.mark.parametrize("sign", [1, -1])
    @pytest.mark.parametrize("key", ["likes:a", "one:a"])
    def test_a_full_shard_loses_nothing(self, key: str, sign: int) -> None:
        """The value fits, the shard does not: another one takes it, or the call is refused."""
        Counter.objects.create(key=key, value=-sign * HIGHEST)
        assert Counter.objects.increment(key, sign * HIGHEST) == 0
        expected = 0
        try:
            with transaction.atomic():
                assert Counter.objects.increment(key, sign * 5) == sign * 5
            expected = sign * 5
        except CounterOverflow:
            assert key == "one:a" or connection.vendor != "postgresql"
        assert_counts({key: expected})
        assert all(type(value) is int for value in shards(key).values())


class TestTransactions:
    def test_a_transaction_comes_back_to_its_own_shard(self) -> None:
        with transaction.atomic():
            for _ in range(10):
                Counter.objects.increment("likes:new")
        assert list(shards("likes:new").values()) == [10]


class TestManagerOfShards:
    def test_it_keeps_to_the_number_of_shards_of_a_sharded_namespace(self) -> None:
        CounterShard.objects.increment("four:a", shard_key="ann")
        assert list(shards("four:a")) == [3]

    def test_it_takes_no_bad_input(self) -> None:
        for call in (CounterShard.objects.increment, CounterShard.objects.decrement):
            with pytest.raises(InvalidKey):
                call("a b")
            for delta in (True, 1.0, "1", None, 2**63):
                with pytest.raises(InvalidDelta):
                    call("a", delta)  # type: ignore[arg-type]
        with pytest.raises(InvalidKey):
            CounterShard.objects.value("")
        assert not CounterShard.objects.exists()
