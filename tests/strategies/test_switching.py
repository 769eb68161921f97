"""A counter changes its strategy while it runs: what is pending is read, asked and folded."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.contrib.contenttypes.models import ContentType
from django.db import connection, transaction

from django_counters.errors import (
    CeilingExceeded,
    CounterOverflow,
    InsufficientCount,
    Shortfall,
)
from django_counters.metrics.doctor import examine
from django_counters.models import Counter, CounterDelta, CounterShard, SlottedCounter
from django_counters.testing import assert_counts, override_counters
from django_counters.types import INT8
from django_counters.upkeep import rollup, verify
from tests.settling import roll_up
from tests.testapp.models import Post, Product, Small, Song

pytestmark = pytest.mark.django_db


def sharded() -> override_counters:
    return override_counters(likes={"STRATEGY": "sharded"}, stock={"STRATEGY": "sharded"})


def exact() -> override_counters:
    return override_counters(likes={}, stock={"FLOOR": 0}, quota={"CEILING": 10})


def _in_shards(key: str, by: int) -> None:
    sign = 1 if by > 0 else -1
    CounterShard.objects.increment(key, by - sign, shard_key="ann")
    CounterShard.objects.increment(key, sign, shard_key="bob")


def _in_entries(key: str, by: int) -> None:
    CounterDelta.objects.append(key, by)


Wait = Callable[[str, int], None]


@pytest.fixture(params=[_in_shards, _in_entries], ids=["shards", "entries"])
def wait(request: pytest.FixtureRequest) -> Wait:
    """A function that counts where an exact counter does not."""
    found: Wait = request.param
    return found


@pytest.fixture
def _switched(wait: Wait) -> Iterator[None]:
    """Five in the total, seven wait elsewhere, and by now the namespaces are exact."""
    Counter.objects.increment_many({"likes:a": 5, "stock:a": 5})
    wait("likes:a", 7)
    wait("stock:a", 7)
    with exact():
        yield


@pytest.mark.usefixtures("_switched")
class TestNamed:
    def test_reading(self) -> None:
        assert Counter.objects.value("likes:a") == 12
        assert Counter.objects.values_of(["likes:a", "stock:a", "new"]) == {
            "likes:a": 12,
            "stock:a": 12,
            "new": 0,
        }
        reading = Counter.objects.read("likes:a")
        assert (reading.value, reading.total, reading.pending) == (12, 5, 7)

    def test_a_floor_is_asked_of_the_whole_value(self) -> None:
        with pytest.raises(InsufficientCount) as caught:
            Counter.objects.decrement("stock:a", 13)
        assert caught.value.shortfalls == (Shortfall("stock:a", 13, 12, 0),)
        # More than the total alone, and the rest: the total itself may be negative.
        assert Counter.objects.decrement("stock:a", 8) == 4
        assert Counter.objects.decrement("stock:a", 4) == 0
        with pytest.raises(InsufficientCount):
            Counter.objects.decrement("stock:a")

    def test_negative_pending_is_not_there_to_sell(self, wait: Wait) -> None:
        wait("likes:a", -11)
        assert_counts({"likes:a": 1})
        with pytest.raises(InsufficientCount) as caught:
            Counter.objects.decrement("likes:a", 2, floor=0)
        assert caught.value.available == 1
        assert Counter.objects.decrement("likes:a", floor=0) == 0

    def test_a_cart(self) -> None:
        with pytest.raises(InsufficientCount) as caught:
            Counter.objects.decrement_many({"stock:a": 13, "stock:b": 1, "likes:a": 1})
        assert set(caught.value.shortfalls) == {
            Shortfall("stock:a", 13, 12, 0),
            Shortfall("stock:b", 1, 0, 0),
        }
        assert_counts({"stock:a": 12, "likes:a": 12})
        assert Counter.objects.decrement_many({"stock:a": 12, "likes:a": 1}) == {
            "stock:a": 0,
            "likes:a": 11,
        }


@pytest.mark.parametrize("edge", INT8)
class TestRange:
    """Where only the sum of both parts fits, a change succeeds or is refused; nothing is lost."""

    @pytest.mark.parametrize("many", [False, True])
    def test_a_full_total_and_room_in_what_is_pending(self, edge: int, many: bool) -> None:
        sign = 1 if edge > 0 else -1
        Counter.objects.increment("a", edge)
        CounterShard.objects.increment("a", -sign * 10)
        expected = edge - sign * 10
        try:
            with transaction.atomic():
                Counter.objects.increment_many({"a": sign * 5, **({"b": 1} if many else {})})
            expected += sign * 5
        except CounterOverflow:
            pass
        assert_counts({"a": expected})
        assert all(type(value) is int for value in Counter.objects.values_list("value", flat=True))

    def test_a_value_beyond_64_bits_is_refused(self, edge: int, wait: Wait) -> None:
        sign = 1 if edge > 0 else -1
        Counter.objects.increment("likes:a", edge - sign * 5)
        wait("likes:a", sign * 5)
        for declared in (exact, sharded):
            with declared():
                with pytest.raises(CounterOverflow), transaction.atomic():
                    Counter.objects.increment("likes:a", sign)
                with pytest.raises(CounterOverflow), transaction.atomic():
                    Counter.objects.increment_many({"likes:a": sign, "b": 1})
        assert_counts({"likes:a": edge, "b": 0})
        assert all(type(value) is int for value in Counter.objects.values_list("value", flat=True))


class TestFields:
    """Slots of an exact field: as they are left when it was slotted before."""

    def test_bounds_are_asked_of_the_whole_value(self) -> None:
        product = Product.objects.create(stock=5)
        make_slot(product, "stock", 7)
        with pytest.raises(InsufficientCount) as short:
            product.stock.decrement(13)
        assert short.value.available == 12
        assert product.stock.decrement(12) == 0
        with pytest.raises(InsufficientCount):
            product.stock.decrement()
        with pytest.raises(CeilingExceeded) as full:
            product.stock.increment(1001)
        assert full.value.available == 1000
        assert product.stock.increment(1000) == 1000
        rollup()
        assert Product.objects.get().stock == 1000

    def test_the_range_of_the_column(self) -> None:
        small = Small.objects.create(hits=2**31 - 6)
        make_slot(small, "hits", 4)
        assert small.hits.increment() == 2**31 - 1
        with pytest.raises(CounterOverflow):
            small.hits.increment()
        assert small.hits.read().value == 2**31 - 1

    def test_a_rollup_forgets_what_a_deleted_record_has_left(self) -> None:
        post = Post.objects.create()
        SlottedCounter.objects.increment(post, "likes", 7)
        key = post.pk
        post.delete()
        assert rollup().orphans == 1
        assert Post.objects.create(pk=key).likes.read().value == 0


def make_slot(record: Any, name: str, count: int) -> None:
    """A slot as an older version of the project has left it."""
    SlottedCounter.objects.create(
        record_type=ContentType.objects.get_for_model(record),
        record_id=str(record.pk),
        name=name,
        slot=0,
        count=count,
    )


def test_a_named_counter_of_records_gets_a_column() -> None:
    """What was rolled up before the field was there is still read."""
    post = Post.objects.create(likes=5)
    make_slot(post, "likes", 7)
    SlottedCounter.objects.update(slot=-1)
    assert post.likes.read().value == 12
    assert SlottedCounter.objects.values_of([post], "likes") == {post.pk: 12}
    assert post.likes.increment() == 13
    assert Post.objects.with_counts("likes").get().likes == 13
    assert rollup().rows == 1
    reading = post.likes.read()
    assert (reading.total, reading.pending) == (13, 0)
    assert not SlottedCounter.objects.exists()


def test_a_named_counter_of_records_gets_a_slotted_column() -> None:
    """Its total of before and the slots of now are folded together."""
    song = Song.objects.create(plays=5)
    make_slot(song, "plays", 7)
    SlottedCounter.objects.update(slot=-1)
    assert song.plays.increment(2) == 14
    reading = SlottedCounter.objects.read(song, "plays")
    assert (reading.total, reading.pending) == (5, 9)
    assert Song.objects.with_counts("plays").get().plays == 14
    assert rollup().rows == 2
    reading = song.plays.read()
    assert (reading.total, reading.pending) == (14, 0)
    assert not SlottedCounter.objects.exists()


def test_what_waits_elsewhere_is_found() -> None:
    Counter.objects.increment("n:a", 5)
    CounterDelta.objects.append("n:a", 3)
    CounterShard.objects.increment("n:a", 4)
    found = {finding.subject: finding.rows for finding in examine()}
    assert found == {"n": 1, "ledger": 1}


@pytest.mark.skipif(connection.vendor == "sqlite", reason="no integers wider than 64 bits")
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("strategy", ["exact", "sharded"])
@pytest.mark.parametrize("many", [False, True])
def test_what_came_otherwise_may_be_larger_than_the_value(
    sign: int, strategy: str, many: bool
) -> None:
    """The value fits all the time; what it would be without its entries need not."""
    edge = INT8[sign > 0]
    Counter.objects.increment("n:a", edge - sign * 10)
    CounterDelta.objects.append("n:a", -sign * 100)
    roll_up()
    with override_counters(n={"STRATEGY": strategy}):
        deltas = {"n:a": sign * 50, "n:b": 1} if many else {"n:a": sign * 50}
        assert Counter.objects.increment_many(deltas)["n:a"] == edge - sign * 60
    roll_up()
    assert Counter.objects.get(key="n:a").value == edge - sign * 60
    assert verify().drifts == []
