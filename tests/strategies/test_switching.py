"""A counter changes its strategy while it runs: what is pending is read, asked and folded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.contenttypes.models import ContentType
from django.db import transaction

from django_counters.exceptions import (
    CeilingExceeded,
    CounterOverflow,
    InsufficientCount,
    RecordMissing,
)
from django_counters.models import Counter, CounterShard, SlottedCounter
from django_counters.testing import assert_counts, override_counters
from django_counters.types import INT8, Shortfall
from django_counters.upkeep.doctor import examine
from django_counters.upkeep.rollup import rollup
from tests.testapp.models import Post, Product, Small, Song

pytestmark = pytest.mark.django_db
LOWEST, HIGHEST = INT8


def sharded() -> override_counters:
    return override_counters(likes={"STRATEGY": "sharded"}, stock={"STRATEGY": "sharded"})


def exact() -> override_counters:
    return override_counters(likes={}, stock={"FLOOR": 0}, quota={"CEILING": 10})


@pytest.fixture
def _switched() -> Any:
    """Five in the total, seven pending, and by now the namespaces are exact."""
    with exact():
        Counter.objects.increment_many({"likes:a": 5, "stock:a": 5})
    with sharded():
        for number in range(7):
            Counter.objects.increment("likes:a", shard_key=number)
            Counter.objects.increment("stock:a", shard_key=number)
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

    def test_a_change_returns_the_whole_value(self) -> None:
        assert Counter.objects.increment("likes:a") == 13
        assert Counter.objects.increment("likes:a", 5) == 18
        assert Counter.objects.decrement("likes:a", 20) == -2
        assert Counter.objects.increment_many({"likes:a": 1, "b": 1}) == {"likes:a": -1, "b": 1}
        assert Counter.objects.filter(key="likes:a").increment(3) == 1
        assert_counts({"likes:a": 2})

    def test_a_floor_is_asked_of_the_whole_value(self) -> None:
        with pytest.raises(InsufficientCount) as caught:
            Counter.objects.decrement("stock:a", 13)
        assert caught.value.shortfalls == (Shortfall("stock:a", 13, 12, 0),)
        # More than the total alone, and the rest: the total itself may be negative.
        assert Counter.objects.decrement("stock:a", 8) == 4
        assert Counter.objects.decrement("stock:a", 4) == 0
        with pytest.raises(InsufficientCount):
            Counter.objects.decrement("stock:a")
        rollup()
        assert Counter.objects.get(key="stock:a").value == 0

    def test_negative_pending_is_not_there_to_sell(self) -> None:
        CounterShard.objects.decrement("likes:a", 11)
        assert_counts({"likes:a": 1})
        with pytest.raises(InsufficientCount) as caught:
            Counter.objects.decrement("likes:a", 2, floor=0)
        assert caught.value.available == 1
        assert Counter.objects.decrement("likes:a", floor=0) == 0

    def test_a_ceiling_is_asked_of_the_whole_value(self) -> None:
        with pytest.raises(CeilingExceeded) as caught:
            Counter.objects.increment("likes:a", 2, ceiling=13)
        assert caught.value.available == 1
        assert Counter.objects.increment("likes:a", ceiling=13) == 13
        with override_counters(quota={}):
            CounterShard.objects.increment("quota:new", 9)
        with pytest.raises(CeilingExceeded):
            Counter.objects.increment("quota:new", 2)
        assert Counter.objects.increment("quota:new") == 10

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

    def test_what_is_pending_is_folded(self) -> None:
        Counter.objects.decrement("stock:a", 8)
        left = {finding.subject: finding for finding in examine()}
        assert set(left) == {"likes", "stock"}
        assert all("counters rollup" in finding.action for finding in left.values())
        rollup()
        assert examine() == []
        assert_counts({"stock:a": 4, "likes:a": 12})
        reading = Counter.objects.read("stock:a")
        assert (reading.total, reading.pending) == (4, 0)

    def test_back_and_forth(self) -> None:
        expected = 12
        for turn in range(6):
            with sharded() if turn % 2 else exact():
                expected += turn + 1
                assert Counter.objects.increment("likes:a", turn + 1) == expected
            if turn == 3:
                rollup()
        assert_counts({"likes:a": expected})

    def test_a_refusal_leaves_the_callers_transaction_usable(self) -> None:
        with transaction.atomic():
            with pytest.raises(InsufficientCount):
                Counter.objects.decrement("stock:a", 13)
            Counter.objects.decrement("stock:a", 8)
        assert_counts({"stock:a": 4})


def test_a_counter_that_has_no_total_yet(override_counters: Callable[..., None]) -> None:
    CounterShard.objects.increment("a", 7)
    assert Counter.objects.decrement("a", 5, floor=0) == 2
    CounterShard.objects.increment("b", 7)
    assert Counter.objects.increment("b") == 8
    CounterShard.objects.increment("c", 7)
    assert Counter.objects.increment_many({"c": 1}) == {"c": 8}
    with pytest.raises(InsufficientCount):
        Counter.objects.decrement("b", 9, floor=0)
    assert_counts({"a": 2, "b": 8, "c": 8})


@pytest.mark.parametrize("sign", [1, -1])
class TestRange:
    """Where only the sum of both parts fits, a change succeeds or is refused; nothing is lost."""

    def _either(self, change: Callable[[], Any], key: str, before: int, by: int) -> None:
        expected = before
        try:
            with transaction.atomic():
                change()
            expected = before + by
        except CounterOverflow:
            pass
        assert_counts({key: expected})
        assert all(type(value) is int for value in Counter.objects.values_list("value", flat=True))

    def test_a_full_total_and_room_in_what_is_pending(self, sign: int) -> None:
        edge = HIGHEST if sign > 0 else LOWEST
        Counter.objects.increment("a", edge)
        CounterShard.objects.increment("a", -sign * 10)
        before = edge - sign * 10
        self._either(lambda: Counter.objects.increment("a", sign * 5), "a", before, sign * 5)

    def test_the_same_of_many(self, sign: int) -> None:
        edge = HIGHEST if sign > 0 else LOWEST
        Counter.objects.increment("a", edge)
        CounterShard.objects.increment("a", -sign * 10)
        before = edge - sign * 10
        many = {"a": sign * 5, "b": 1}
        self._either(lambda: Counter.objects.increment_many(many), "a", before, sign * 5)

    def test_a_value_beyond_64_bits_is_refused(self, sign: int) -> None:
        edge = HIGHEST if sign > 0 else LOWEST
        Counter.objects.increment("a", edge - sign * 5)
        CounterShard.objects.increment("a", sign * 5)
        with pytest.raises(CounterOverflow), transaction.atomic():
            Counter.objects.increment("a", sign)
        assert_counts({"a": edge})
        with pytest.raises(CounterOverflow), transaction.atomic():
            Counter.objects.increment_many({"a": sign, "b": 1})
        assert_counts({"a": edge, "b": 0})


class TestFields:
    """Slots of an exact field: as they are left when it was slotted before."""

    def test_reading_and_counting(self) -> None:
        post = Post.objects.create(likes=5)
        SlottedCounter.objects.increment(post, "likes", 7)
        reading = post.likes.read()
        assert (reading.value, reading.total, reading.pending) == (12, 5, 7)
        assert post.likes.increment() == 13
        assert post.likes.decrement(10) == 3
        assert SlottedCounter.objects.values_of([post], "likes") == {post.pk: 3}
        (finding,) = examine()
        assert finding.subject == "slots of testapp.Post.likes"
        assert "counters rollup" in finding.action
        rollup()
        assert Post.objects.get().likes == 3
        assert examine() == []

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

    def test_negative_pending_is_not_there_to_sell(self) -> None:
        product = Product.objects.create(stock=5)
        make_slot(product, "stock", -4)
        with pytest.raises(InsufficientCount) as caught:
            product.stock.decrement(2)
        assert caught.value.available == 1
        assert product.stock.decrement() == 0

    def test_the_range_of_the_column(self) -> None:
        small = Small.objects.create(hits=2**31 - 6)
        make_slot(small, "hits", 4)
        assert small.hits.increment() == 2**31 - 1
        with pytest.raises(CounterOverflow):
            small.hits.increment()
        assert small.hits.read().value == 2**31 - 1

    def test_a_record_that_is_gone(self) -> None:
        post = Post.objects.create()
        SlottedCounter.objects.increment(post, "likes", 7)
        Post.objects.all().delete()
        with pytest.raises(RecordMissing):
            post.likes.increment()
        with pytest.raises(RecordMissing):
            post.likes.decrement(1, floor=0)

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
