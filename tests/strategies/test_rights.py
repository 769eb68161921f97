"""The promises of counters that are spread over rows and have a floor."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from django.db import OperationalError, transaction

from django_counters.contrib import series
from django_counters.errors import (
    CounterError,
    InsufficientCount,
    RecordMissing,
    RetryTransaction,
    UnsupportedBounds,
)
from django_counters.models import (
    Counter,
    CounterDelta,
    CounterShard,
    SlottedCounter,
)
from django_counters.stores.sql.session import Session
from django_counters.strategies.spread import spread_over
from django_counters.testing import assert_counts, override_counters
from django_counters.types import Bounds, Delta, Reading, Result
from django_counters.upkeep import rollup
from tests.settling import roll_up
from tests.testapp.models import Concert, Product

pytestmark = pytest.mark.django_db
STOCK: dict[str, Any] = {"STRATEGY": "sharded", "FLOOR": 0}
FOUR = {**STOCK, "OPTIONS": {"shards": 4}}


@dataclass(frozen=True)
class Stock:
    """One counter with a floor of zero."""

    add: Callable[[int], Result]
    take: Callable[[int], Result]
    read: Callable[[], Reading]
    adjust: Callable[..., Any]
    rows: Callable[[], list[int]]

    @property
    def left(self) -> int:
        return self.read().value


def named(key: str) -> Stock:
    return Stock(
        lambda by: Counter.objects.increment(key, by),
        lambda by: Counter.objects.decrement(key, by),
        lambda: Counter.objects.read(key),
        lambda **given: Counter.objects.adjust(key, reason="counted", actor="ann", **given),
        lambda: [*CounterShard.objects.filter(key=key).values_list("value", flat=True)],
    )


def of_record(name: str) -> Stock:
    concert = Concert.objects.create()
    value = getattr(concert, name)
    return Stock(
        value.increment,
        value.decrement,
        value.read,
        lambda **given: value.adjust(reason="counted", actor="ann", **given),
        lambda: [*SlottedCounter.objects.filter(name=name).values_list("count", flat=True)],
    )


KINDS: dict[str, Callable[[], Stock]] = {
    "shards": lambda: named("stock:a"),
    "four shards": lambda: named("four:a"),
    "slots": lambda: of_record("seats"),
    "four slots": lambda: of_record("chairs"),
}


@pytest.fixture(autouse=True)
def declared() -> Iterator[None]:
    with override_counters(stock=STOCK, four=FOUR):
        yield


@pytest.fixture(params=KINDS)
def stock(request: pytest.FixtureRequest) -> Stock:
    return KINDS[request.param]()


@pytest.mark.parametrize("between", [lambda: None, rollup], ids=["waits", "rolled up"])
def test_the_value_never_falls_below_the_floor(stock: Stock, between: Callable[[], object]) -> None:
    stock.add(10)
    between()
    assert stock.take(3) == 7
    between()
    with pytest.raises(InsufficientCount) as refused:
        stock.take(8)
    assert (refused.value.available, refused.value.requested, refused.value.floor) == (7, 8, 0)
    assert [stock.take(1).value for _ in range(7)] == [6, 5, 4, 3, 2, 1, 0]
    with pytest.raises(InsufficientCount):
        stock.take(1)
    assert stock.left == 0
    # What comes back is there to be taken.
    stock.add(2)
    assert stock.take(2) == 0


def test_what_is_in_several_rows_is_taken_together(stock: Stock) -> None:
    stock.add(100)
    stock.take(1)
    with pytest.raises(InsufficientCount):
        stock.take(100)
    assert stock.take(99) == 0


def test_a_floor_below_zero_and_one_above() -> None:
    with override_counters(debt={**STOCK, "FLOOR": -5}, deposit={**STOCK, "FLOOR": 5}):
        assert [Counter.objects.decrement("debt:a").value for _ in range(5)] == [-1, -2, -3, -4, -5]
        with pytest.raises(InsufficientCount):
            Counter.objects.decrement("debt:a")
        Counter.objects.increment("deposit:a", 8)
        assert Counter.objects.decrement("deposit:a", 3) == 5
        with pytest.raises(InsufficientCount):
            Counter.objects.decrement("deposit:a")
    assert_counts({"debt:a": -5, "deposit:a": 5})


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("leftover", ["a row below zero", "a total below zero", "entries"])
def test_what_another_strategy_has_left_is_counted(leftover: str) -> None:
    with override_counters(stock={"STRATEGY": "sharded"}):
        if leftover == "a row below zero":
            Counter.objects.increment("stock:a", 9, shard_key="ann")
            Counter.objects.decrement("stock:a", 4, shard_key="bob")
        elif leftover == "a total below zero":
            Counter.objects.decrement("stock:a", 4)
            roll_up()
            Counter.objects.increment("stock:a", 9)
        else:
            Counter.objects.increment("stock:a", 9)
            CounterDelta.objects.append("stock:a", -4)
    with pytest.raises(InsufficientCount):
        Counter.objects.decrement("stock:a", 6)
    assert [Counter.objects.decrement("stock:a").value for _ in range(5)] == [4, 3, 2, 1, 0]
    with pytest.raises(InsufficientCount):
        Counter.objects.decrement("stock:a")
    roll_up()
    assert_counts({"stock:a": 0})


def test_a_batch_is_all_or_nothing() -> None:
    Counter.objects.increment_many({"stock:a": 5, "stock:b": 2, "four:a": 9})
    with pytest.raises(InsufficientCount, match="stock:b"):
        Counter.objects.decrement_many({"stock:a": 3, "stock:b": 3, "four:a": 3})
    assert_counts({"stock:a": 5, "stock:b": 2, "four:a": 9})
    left = Counter.objects.decrement_many({"stock:a": 5, "stock:b": 2, "four:a": 3})
    assert left == {"stock:a": 0, "stock:b": 0, "four:a": 6}


def test_an_adjustment_sees_what_is_in_rows(stock: Stock) -> None:
    stock.add(10)
    stock.take(1)
    stock.adjust(by=-7)
    assert stock.left == 2
    with pytest.raises(InsufficientCount):
        stock.adjust(by=-3)
    with pytest.raises(InsufficientCount):
        stock.take(3)
    assert stock.take(2) == 0
    stock.adjust(to=-4, allow_below_floor=True)
    with pytest.raises(InsufficientCount):
        stock.take(1)
    stock.add(5)
    with pytest.raises(InsufficientCount):
        stock.take(2)
    assert stock.take(1) == 0


def test_cells_count_what_is_taken() -> None:
    with override_counters(stock={**STOCK, "PER": ["day"]}):
        Counter.objects.increment("stock:a", 20)
        for by in (1, 1, 5, 12):
            Counter.objects.decrement("stock:a", by)
        with pytest.raises(InsufficientCount):
            Counter.objects.decrement("stock:a", 2)
        assert series.of("stock:a").per("day").last(1).total() == 1


def test_a_token_counts_once() -> None:
    Counter.objects.increment("stock:a", 3)
    token = "6f0b5b2e-7a4c-4d1e-9a55-0d7f0a9c2b11"
    for _ in range(2):
        assert Counter.objects.decrement("stock:a", 2, token=token) == 1
    assert_counts({"stock:a": 1})


@pytest.mark.parametrize("by", [-(2**63), 1 - 2**63], ids=["least", "next to it"])
def test_more_than_a_row_can_have_is_refused(stock: Stock, by: int) -> None:
    stock.add(3)
    with pytest.raises(InsufficientCount):
        stock.add(by)
    with override_counters(deposit={**STOCK, "FLOOR": 5}), pytest.raises(InsufficientCount):
        Counter.objects.increment("deposit:a", by)
    assert stock.left == 3


def test_all_the_way_down_to_the_least_number() -> None:
    with override_counters(debt={**STOCK, "FLOOR": -(2**63)}):
        assert Counter.objects.increment("debt:a", -(2**63)) == -(2**63)
        with pytest.raises(InsufficientCount):
            Counter.objects.decrement("debt:a")


def test_what_waits_for_a_record_that_is_gone_is_not_adjusted() -> None:
    gone, there = Concert.objects.create(), Concert.objects.create()
    gone.seats.increment(5)
    # As other programs delete it.
    Concert.objects.filter(pk=gone.pk)._raw_delete("default")
    with pytest.raises(RecordMissing):
        gone.seats.adjust(by=1, reason="counted", actor="ann")
    there.seats.adjust(by=1, reason="counted", actor="ann")
    assert there.seats.value() == 1


def test_who_shares_what_is_of_a_record_that_has_just_gone_is_told_so() -> None:
    field: Any = Concert._meta.get_field("seats")
    rights, _ = spread_over(field.table, "default", "auto")
    with pytest.raises(RecordMissing):
        rights.share(Delta(0, -1, Bounds(0)), 0, lambda _: CounterError())


def test_bounds_that_rows_do_not_keep() -> None:
    Counter.objects.increment("stock:a", 3)
    # It has a floor: only this one is not kept.
    other = "stock:a cannot have this floor or ceiling: the sharded strategy does not promise it."
    with pytest.raises(UnsupportedBounds, match=other):
        Counter.objects.decrement("stock:a", floor=1)
    with pytest.raises(UnsupportedBounds, match=other):
        Counter.objects.increment("stock:a", ceiling=9)
    # It is the one that is declared.
    assert Counter.objects.decrement("stock:a", floor=0) == 2


def test_who_takes_from_the_total_alone_takes_nothing_from_rows() -> None:
    product = Product.objects.create(stock=5)
    with override_counters(stock={"FLOOR": 0}):
        Counter.objects.increment("stock:a", 5)
        with pytest.raises(UnsupportedBounds):
            CounterShard.objects.decrement("stock:a")
        with pytest.raises(UnsupportedBounds):
            SlottedCounter.objects.decrement(product, "stock")
        assert CounterShard.objects.increment("stock:a") == 6
    # Where the namespace is sharded itself, it is one way among others.
    assert CounterShard.objects.decrement("stock:a") == 5


def test_a_like_is_taken_back() -> None:
    with override_counters(likes={"STRATEGY": "sharded", "FLOOR": 0, "ONCE": True}):
        assert Counter.objects.increment("likes:a", who="ann") == 1
        assert Counter.objects.decrement("likes:a", who="bob") == 1
        assert Counter.objects.decrement("likes:a", who="ann") == 0


def test_a_refusal_and_most_sales_are_one_statement(
    stock: Stock, django_assert_num_queries: Any
) -> None:
    stock.add(1000)
    stock.take(1)
    with django_assert_num_queries(1):
        stock.take(1)
    stock.take(998)
    # One that finds nothing, and one that says how much there is.
    with django_assert_num_queries(2), pytest.raises(InsufficientCount):
        stock.take(1)


@pytest.mark.many_writers
@pytest.mark.django_db(transaction=True)
class TestOthers:
    """What is taken while others have transactions open."""

    def test_nobody_waits_while_a_row_has_enough(self, stock: Stock, elsewhere: Any) -> None:
        stock.add(100)
        stock.take(1)
        with transaction.atomic():
            stock.take(1)
            elsewhere(lambda: _hurried(lambda: stock.take(1)))
            elsewhere(lambda: _hurried(lambda: stock.take(1)))
        assert stock.left == 96

    def test_a_sale_that_is_rolled_back_is_there_for_the_next(
        self, stock: Stock, elsewhere: Any
    ) -> None:
        stock.add(3)
        stock.take(1)
        with transaction.atomic():
            stock.take(1)
            elsewhere(lambda: stock.take(1))
            # It cannot be refused, as this may be rolled back: so it waits.
            with waits():
                elsewhere(lambda: _hurried(lambda: stock.take(1)))
            transaction.set_rollback(True)
        assert stock.take(1) == 0

    def test_an_adjustment_leaves_nothing_that_others_take(
        self, stock: Stock, elsewhere: Any
    ) -> None:
        stock.add(10)
        stock.take(1)
        with transaction.atomic():
            stock.adjust(by=-7)
            with waits():
                elsewhere(lambda: _hurried(lambda: stock.take(1)))
        assert stock.left == 2

    @pytest.mark.postgresql  # a check refuses such a transaction on MySQL
    @pytest.mark.parametrize("shared", [True, False])
    def test_a_transaction_that_does_not_see_what_others_took_is_to_be_tried_again(
        self, stock: Stock, elsewhere: Any, shared: bool
    ) -> None:
        stock.add(100)
        if shared:
            stock.take(1)
        left = stock.left
        with pytest.raises(RetryTransaction), transaction.atomic():
            Session("default").execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            assert stock.left == left
            elsewhere(lambda: stock.adjust(by=-1))
            stock.take(1)
        assert stock.left == left - 1

    def test_an_adjustment_below_the_floor_comes_last(self, stock: Stock, elsewhere: Any) -> None:
        """A sale of what is delivered meanwhile does not know of it, and does not wait for it."""
        stock.add(3)
        roll_up()
        with transaction.atomic():
            stock.adjust(by=-8, allow_below_floor=True)
            elsewhere(lambda: stock.add(10))
            elsewhere(lambda: _hurried(lambda: stock.take(7)))
            assert elsewhere(lambda: stock.left) == 6
        assert stock.left == -2
        with pytest.raises(InsufficientCount):
            stock.take(1)

    def test_rows_below_zero_are_looked_at_together(self, elsewhere: Any) -> None:
        with override_counters(four={**FOUR, "FLOOR": None}):
            keys = {zlib.crc32(text.encode()) % 4: text for text in map(str, range(99))}
            for number, by in enumerate((5, 5, -8)):
                Counter.objects.increment("four:a", by, shard_key=keys[number])
        with transaction.atomic():
            assert Counter.objects.decrement("four:a", 2) == 0
            with waits():
                elsewhere(lambda: _hurried(lambda: Counter.objects.decrement("four:a", 2)))
        assert_counts({"four:a": 0})

    def test_an_increment_that_is_not_committed_is_not_there(
        self, stock: Stock, elsewhere: Any
    ) -> None:
        with transaction.atomic():
            stock.add(5)
            with pytest.raises(InsufficientCount):
                elsewhere(lambda: _hurried(lambda: stock.take(1)))
        assert stock.take(1) == 4


def waits() -> Any:
    """That somebody has to wait for another one's transaction."""
    return pytest.raises(OperationalError, match=r"(?i)lock (wait )?timeout")


def _hurried(change: Callable[[], object]) -> None:
    with transaction.atomic(), Session("default").hurried("200"):
        change()
