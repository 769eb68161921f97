"""The promises of sharded counters: values, shards, bounds, transactions."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.core.checks import run_checks
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext, override_settings

from django_counters import clock
from django_counters.conf import MOST_SHARDS
from django_counters.exceptions import (
    CounterOverflow,
    InsufficientCount,
    InvalidConfiguration,
    InvalidDelta,
    InvalidKey,
    UnsupportedBounds,
    UnsupportedConsistency,
)
from django_counters.models import Counter, CounterShard
from django_counters.testing import assert_counts, override_counters
from django_counters.types import INT8

LOWEST, HIGHEST = INT8
ROOT = Path(__file__).parent.parent.parent
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


def test_a_counter_starts_at_zero_and_returns_its_new_value() -> None:
    assert Counter.objects.value("likes:a") == 0
    assert Counter.objects.increment("likes:a") == 1
    assert Counter.objects.increment("likes:a", 5) == 6
    assert Counter.objects.decrement("likes:a", 2) == 4
    assert Counter.objects.increment("likes:a", -10) == -6
    assert Counter.objects.values_of(["likes:b", "likes:a"]) == {"likes:b": 0, "likes:a": -6}
    assert not Counter.objects.exists()


def test_each_call_is_one_statement() -> None:
    calls: list[Callable[[], Any]] = [
        lambda: Counter.objects.increment("likes:a"),
        lambda: Counter.objects.increment("likes:a", 3, shard_key="user"),
        lambda: Counter.objects.value("likes:a"),
        lambda: Counter.objects.read("likes:a"),
        lambda: Counter.objects.values_of(["likes:a", "likes:b", "exact"]),
    ]
    if connection.vendor == "postgresql":
        calls.append(lambda: Counter.objects.increment_many({"likes:a": 1, "likes:b": 1}))
    for call in calls:
        with CaptureQueriesContext(connection) as captured:
            call()
        assert len(captured) == 1


def test_a_reading_tells_total_from_pending() -> None:
    Counter.objects.create(key="likes:a", value=100)
    Counter.objects.increment("likes:a", 7)
    before = clock.now()
    reading = Counter.objects.read("likes:a")
    assert (reading.value, reading.total, reading.pending) == (107, 100, 7)
    assert reading.consistency == "exact"
    assert before <= reading.as_of <= clock.now()
    with pytest.raises(UnsupportedConsistency, match="sharded"):
        Counter.objects.read("likes:a", consistency="cached")
    assert Counter.objects.read("likes:never").value == 0


def test_one_writer_at_a_time_needs_one_shard() -> None:
    for _ in range(20):
        Counter.objects.increment("likes:a")
    assert list(shards("likes:a").values()) == [20]


def test_any_printable_text_is_kept_as_it_is() -> None:
    texts = ["%s", "a*b{c}[d]", '"quoted"', "'", "\\", "größe:Ω", "🎉", "NULL", "a,b"]
    keys = [f"likes:{text}" for text in texts]
    Counter.objects.increment_many(dict.fromkeys(keys, 2))
    for key in keys:
        assert Counter.objects.increment(key) == 3
    assert Counter.objects.values_of(keys) == dict.fromkeys(keys, 3)


class TestShardKey:
    def test_the_same_one_always_leads_to_the_same_shard(self) -> None:
        for _ in range(5):
            Counter.objects.increment("likes:a", shard_key="ann")
        assert list(shards("likes:a").values()) == [5]
        for number in range(40):
            Counter.objects.increment("likes:a", shard_key=f"user {number}")
        assert len(shards("likes:a")) > 10
        assert all(0 <= shard < MOST_SHARDS for shard in shards("likes:a"))
        assert_counts({"likes:a": 45})

    def test_its_shard_is_part_of_the_contract(self) -> None:
        """CRC-32 of the text: a server of another version must find the same row."""
        Counter.objects.increment("likes:a", shard_key="ann")
        Counter.objects.increment("four:a", shard_key="ann")
        Counter.objects.increment("likes:b", shard_key=456)
        assert list(shards("likes:a")) == [51]
        assert list(shards("four:a")) == [3]
        assert list(shards("likes:b")) == [49]

    def test_another_process_finds_the_same_shard(self) -> None:
        script = (
            "from django_counters.strategies.sharded import Sharded; "
            "print(Sharded(None, 64)._number('ann'), Sharded(None, 64)._number(456))"
        )
        answers = {
            subprocess.run(
                [sys.executable, "-c", script],
                cwd=ROOT,
                env={"PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)},
                capture_output=True,
                text=True,
                check=True,
            ).stdout.strip()
            for seed in ("1", "2")
        }
        assert answers == {"51 49"}

    def test_an_exact_counter_has_no_use_for_it(self) -> None:
        assert Counter.objects.increment("exact", 2, shard_key="ann") == 2
        assert not CounterShard.objects.exists()


class TestCap:
    def test_one_shard_is_enough(self) -> None:
        for number in range(10):
            Counter.objects.increment("one:a", shard_key=number)
            Counter.objects.increment("one:a")
        assert shards("one:a") == {0: 20}

    def test_shard_keys_stay_below_it(self) -> None:
        for number in range(50):
            Counter.objects.increment("four:a", shard_key=number)
        assert set(shards("four:a")) == {0, 1, 2, 3}
        assert_counts({"four:a": 50})


class TestBounds:
    def test_a_call_cannot_ask_for_what_shards_cannot_hold(self) -> None:
        with pytest.raises(UnsupportedBounds) as caught:
            Counter.objects.decrement("likes:a", floor=0)
        assert (caught.value.key, caught.value.strategy) == ("likes:a", "sharded")
        with pytest.raises(UnsupportedBounds):
            Counter.objects.increment("likes:a", ceiling=10)
        assert_counts({"likes:a": 0})

    def test_only_the_bound_that_the_value_moves_towards_is_asked(self) -> None:
        assert Counter.objects.increment("likes:a", floor=0) == 1
        assert Counter.objects.decrement("likes:a", ceiling=9) == 0

    @pytest.mark.parametrize("shard_key", [None, "ann"])
    def test_shards_are_no_way_around_a_floor(self, shard_key: str | None) -> None:
        """`CounterShard.objects` serves any namespace, but not against its bounds."""
        Counter.objects.increment("stock:a", 2)
        with pytest.raises(UnsupportedBounds):
            CounterShard.objects.decrement("stock:a", 5, shard_key=shard_key)
        assert_counts({"stock:a": 2})


class TestConfiguration:
    @pytest.mark.parametrize(
        ("declared", "code", "message"),
        [
            ({"STRATEGY": "slotted"}, "E004", "a named counter is 'sharded'"),
            ({"STRATEGY": "shardet"}, "E004", "Did you mean 'sharded'?"),
            ({"STRATEGY": "sharded", "OPTIONS": 5}, "E008", "must be a dictionary"),
            ({"STRATEGY": "sharded", "OPTIONS": {"shard": 5}}, "E008", "Did you mean 'shards'?"),
            ({"STRATEGY": "sharded", "OPTIONS": {"shards": 0}}, "E008", "from 1 to 1024"),
            ({"STRATEGY": "sharded", "OPTIONS": {"shards": 1025}}, "E008", "from 1 to 1024"),
            ({"STRATEGY": "sharded", "OPTIONS": {"shards": True}}, "E008", "not True"),
            ({"STRATEGY": "sharded", "OPTIONS": {"shards": "many"}}, "E008", "not 'many'"),
            ({"STRATEGY": "sharded", "OPTIONS": {"combine": True}}, "E008", "no option 'combine'"),
            ({"STRATEGY": "exact", "OPTIONS": {"shards": 4}}, "E008", "no option 'shards'"),
            ({"STRATEGY": "sharded", "FLOOR": 0}, "E009", "cannot hold a floor"),
            ({"STRATEGY": "sharded", "CEILING": 9}, "E009", "cannot hold a floor or a ceiling"),
        ],
    )
    @pytest.mark.django_db(databases=["default", "other"])
    def test_a_mistake_is_found_and_counts_nothing(
        self, declared: Any, code: str, message: str
    ) -> None:
        with override_settings(COUNTERS={"wrong": declared}):
            (error,) = [e for e in run_checks() if (e.id or "").startswith("counters.")]
            with pytest.raises(InvalidConfiguration):
                Counter.objects.increment("wrong:a")
        assert error.id == f"counters.{code}"
        assert message in error.msg
        assert not CounterShard.objects.exists()

    def test_the_largest_number_of_shards_works(self) -> None:
        with override_counters(wide={"STRATEGY": "sharded", "OPTIONS": {"shards": 1024}}):
            for number in range(100):
                Counter.objects.increment("wide:a", shard_key=number)
            assert max(shards("wide:a")) > MOST_SHARDS
            assert_counts({"wide:a": 100})


class TestMany:
    def test_strategies_mix(self) -> None:
        many = {"likes:b": 2, "exact": -1, "likes:a": 1, "four:a": 4, "stock:a": 3}
        assert Counter.objects.increment_many(many) == many
        assert set(Counter.objects.values_list("key", flat=True)) == {"exact", "stock:a"}
        twice = {key: 2 * by for key, by in many.items()}
        assert Counter.objects.increment_many(many) == twice
        assert_counts(twice)

    def test_a_refused_floor_takes_the_shards_back(self) -> None:
        Counter.objects.increment("stock:a", 2)
        with transaction.atomic():
            with pytest.raises(InsufficientCount):
                Counter.objects.decrement_many({"stock:a": 3, "likes:a": 1, "likes:b": 1})
            Counter.objects.increment("likes:b")
        assert_counts({"stock:a": 2, "likes:a": 0, "likes:b": 1})

    def test_a_sum_that_does_not_fit_takes_everything_back(self) -> None:
        Counter.objects.increment("likes:b", HIGHEST)
        with pytest.raises(CounterOverflow), transaction.atomic():
            Counter.objects.increment_many({"likes:a": 1, "likes:b": 1, "likes:c": 1, "exact": 1})
        assert_counts({"likes:a": 0, "likes:b": HIGHEST, "likes:c": 0, "exact": 0})


class TestRange:
    @pytest.mark.parametrize(
        ("edge", "by"), [(HIGHEST, 1), (LOWEST, -1), (HIGHEST, HIGHEST), (LOWEST, LOWEST)]
    )
    @pytest.mark.parametrize("key", ["likes:a", "one:a"])
    @pytest.mark.parametrize("shard_key", [None, "ann"])
    def test_a_sum_beyond_64_bits_is_refused(
        self, edge: int, by: int, key: str, shard_key: str | None
    ) -> None:
        assert Counter.objects.increment(key, edge) == edge
        before = shards(key)
        with transaction.atomic():
            with pytest.raises(CounterOverflow) as caught:
                Counter.objects.increment(key, by, shard_key=shard_key)
            # The callers' transaction goes on.
            assert_counts({key: edge})
        assert caught.value.key == key
        assert shards(key) == before

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
            assert key == "one:a" or connection.vendor == "sqlite"
        assert_counts({key: expected})
        assert all(type(value) is int for value in shards(key).values())


class TestTransactions:
    def test_a_rolled_back_increment_is_not_counted(self) -> None:
        with pytest.raises(ZeroDivisionError), transaction.atomic():
            Counter.objects.increment("likes:a")
            Counter.objects.increment_many({"likes:a": 1, "exact": 1})
            raise ZeroDivisionError
        assert_counts({"likes:a": 0, "exact": 0})

    def test_a_savepoint_takes_its_increments_with_it(self) -> None:
        with transaction.atomic():
            Counter.objects.increment("likes:a")
            with pytest.raises(ZeroDivisionError), transaction.atomic():
                Counter.objects.increment("likes:a", 10)
                Counter.objects.increment("likes:a", 10, shard_key="ann")
                Counter.objects.increment_many({"likes:a": 100, "likes:b": 1})
                raise ZeroDivisionError
            assert Counter.objects.increment("likes:a") == 2
        assert_counts({"likes:a": 2, "likes:b": 0})

    def test_a_transaction_comes_back_to_its_own_shard(self) -> None:
        with transaction.atomic():
            for _ in range(10):
                Counter.objects.increment("likes:new")
        assert list(shards("likes:new").values()) == [10]


class TestManagerOfShards:
    def test_it_counts_whatever_the_namespace_declares(self) -> None:
        assert CounterShard.objects.increment("plain", 3) == 3
        assert CounterShard.objects.decrement("plain") == 2
        assert CounterShard.objects.increment("plain", shard_key="ann") == 3
        assert CounterShard.objects.value("plain") == 3
        assert Counter.objects.value("plain") == 3
        assert 51 in shards("plain")

    def test_it_keeps_to_the_number_of_shards_of_a_sharded_namespace(self) -> None:
        CounterShard.objects.increment("four:a", shard_key="ann")
        assert list(shards("four:a")) == [3]

    def test_it_takes_no_bad_input(self) -> None:
        for call in (CounterShard.objects.increment, CounterShard.objects.decrement):
            with pytest.raises(InvalidKey):
                call("a b")
            for delta in (0, True, 1.0, "1", None, 2**63):
                with pytest.raises(InvalidDelta):
                    call("a", delta)  # type: ignore[arg-type]
        with pytest.raises(InvalidKey):
            CounterShard.objects.value("")
        assert not CounterShard.objects.exists()


@pytest.mark.django_db(databases=["default", "other"])
def test_using_chooses_the_database() -> None:
    Counter.objects.increment("likes:a")
    assert Counter.objects.increment("likes:a", 5, using="other") == 5
    assert CounterShard.objects.increment("likes:a", using="other") == 6
    assert CounterShard.objects.db_manager("other").decrement("likes:a") == 5
    assert Counter.objects.increment_many({"likes:a": 1, "b": 2}, using="other") == {
        "likes:a": 6,
        "b": 2,
    }
    assert_counts({"likes:a": 1, "b": 0})
    assert_counts({"likes:a": 6, "b": 2}, using="other")


@pytest.mark.django_db(transaction=True)
def test_async_twins() -> None:
    async def calls() -> None:
        assert await Counter.objects.aincrement("likes:a", 3) == 3
        assert await CounterShard.objects.aincrement("likes:a", shard_key="ann") == 4
        assert await CounterShard.objects.adecrement("likes:a", 2, shard_key="ann") == 2
        assert await CounterShard.objects.avalue("likes:a") == 2

    async_to_sync(calls)()
    assert 51 in shards("likes:a")
    assert_counts({"likes:a": 2})


@pytest.mark.django_db(transaction=True)
def test_an_async_twin_takes_a_shard_key() -> None:
    async def call() -> None:
        await Counter.objects.aincrement("likes:a", shard_key="ann")

    async_to_sync(call)()
    assert shards("likes:a") == {51: 1}
