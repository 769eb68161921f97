"""What is held is counted off, and is sold or comes back: once."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.db import transaction

from django_counters import Token, clock
from django_counters.contrib import holds
from django_counters.contrib.holds.errors import (
    HoldEnded,
    HoldExpired,
    HoldMissing,
    UnsupportedHold,
)
from django_counters.contrib.holds.holding import Stock as Parts
from django_counters.contrib.holds.models import CounterHold
from django_counters.contrib.holds.upkeep import expire_holds, prune_holds
from django_counters.errors import (
    InsufficientCount,
    InvalidDelta,
    InvalidToken,
    RecordMissing,
    TokenConflict,
    UnsavedInstance,
)
from django_counters.models import Counter, CounterIncident
from django_counters.signals import batch_applied
from django_counters.testing import override_counters
from django_counters.upkeep import verify
from tests.holds.conftest import Stock, of_key, pass_time, sums
from tests.testapp.models import Product, Song

pytestmark = pytest.mark.django_db


def test_a_hold_is_taken_and_sold(stock: Stock) -> None:
    before = clock.utc()
    hold = stock.hold(4, minutes=15, token="cart 1", note="basket 1")
    assert (hold.quantity, hold.state, hold.available, hold.replayed) == (4, "held", 6, False)
    assert timedelta(minutes=14) < hold.expires_at - before < timedelta(minutes=16)
    assert stock.value() == 6
    sold = hold.commit()
    assert (sold.state, sold.sold, sold.replayed, sold.note) == ("committed", 4, False, "basket 1")
    assert stock.value() == 6
    assert hold.commit().replayed
    assert sums() == (0, 4)


def test_a_hold_comes_back(stock: Stock) -> None:
    hold = stock.hold(4)
    assert [one.token for one in stock.holds()] == [hold.token]
    assert hold.release()
    assert not hold.release()
    assert (stock.value(), stock.holds(), sums()) == (10, [], (0, 0))
    with pytest.raises(HoldEnded, match="it was released"):
        hold.commit()
    with pytest.raises(HoldEnded):
        hold.extend(minutes=5)


def test_a_part_is_sold_and_the_rest_comes_back(stock: Stock) -> None:
    hold = stock.hold(4)
    with pytest.raises(InvalidDelta, match="the hold has 4"):
        hold.commit(quantity=5)
    assert hold.commit(quantity=1).sold == 1
    assert (stock.value(), sums()) == (9, (0, 1))
    assert hold.commit(quantity=1).replayed
    with pytest.raises(HoldEnded, match="committed"):
        hold.commit(quantity=2)
    with pytest.raises(HoldEnded, match="committed"):
        hold.release()
    assert stock.value() == 9


def test_the_same_call_answers_with_the_same_hold(stock: Stock) -> None:
    first, second = stock.hold(4, token="cart"), stock.hold(4, token="cart")
    assert (second.token, second.replayed, second.available) == ("cart", True, None)
    assert second.expires_at == first.expires_at
    assert stock.value() == 6
    with pytest.raises(TokenConflict):
        stock.hold(3, token="cart")
    with pytest.raises(TokenConflict):
        holds.hold("stock:other", 4, token="cart")
    first.commit()
    assert stock.hold(4, token="cart").state == "committed"
    assert stock.value() == 6


def test_tokens_of_scopes_are_kept_apart(stock: Stock) -> None:
    mine, yours = Token("cart", "me"), Token("cart", "you")
    stock.hold(1, token=mine)
    stock.hold(2, token=yours)
    assert holds.find(mine).quantity == 1
    assert holds.find(yours).quantity == 2
    with pytest.raises(HoldMissing):
        holds.find("cart")
    assert not CounterHold.objects.filter(token__contains="cart").exists()


def test_nothing_is_sold_when_its_time_is_over(stock: Stock) -> None:
    hold = stock.hold(4)
    pass_time()
    assert holds.find(hold.token).state == "expired"
    with pytest.raises(HoldExpired):
        hold.commit()
    with pytest.raises(HoldExpired):
        hold.commit(quantity=1)
    with pytest.raises(HoldExpired):
        hold.extend(minutes=5)
    assert sums() == (4, 0)
    assert expire_holds() == 1
    assert (stock.value(), sums(), expire_holds()) == (10, (0, 0), 0)
    with pytest.raises(HoldExpired):
        hold.commit()
    assert not hold.release()
    assert stock.value() == 10


def test_a_late_hold_can_be_given_back_by_its_owner_once(stock: Stock) -> None:
    hold = stock.hold(4)
    pass_time()
    assert hold.release()
    assert (expire_holds(), stock.value()) == (0, 10)


def test_a_hold_is_extended_from_now_on(stock: Stock) -> None:
    hold = stock.hold(4, minutes=10)
    longer = hold.extend(minutes=30)
    assert longer.expires_at - hold.expires_at > timedelta(minutes=19)
    # Never for less than before.
    assert hold.extend(minutes=1).expires_at == longer.expires_at
    pass_time(20)
    assert hold.commit().state == "committed"


def test_nobody_is_refused_for_what_is_nobodys(stock: Stock) -> None:
    """Without any upkeep: what has run out is given back before somebody is refused."""
    for _ in range(3):
        stock.hold(3)
    pass_time()
    stock.hold(2, token="runs")
    assert stock.hold(8).quantity == 8
    assert (stock.value(), sums()) == (0, (10, 0))
    with pytest.raises(InsufficientCount) as refused:
        stock.hold(1, token="refused")
    assert (refused.value.available, refused.value.floor) == (0, 0)
    assert not CounterHold.objects.filter(token="refused").exists()


def test_a_refused_hold_leaves_nothing(stock: Stock) -> None:
    with pytest.raises(InsufficientCount):
        stock.hold(11, token="cart")
    assert (stock.value(), CounterHold.objects.count()) == (10, 0)
    # The token is free for what there is.
    assert stock.hold(10, token="cart").available == 0


def test_what_is_rolled_back_never_was(stock: Stock) -> None:
    kept = stock.hold(1)
    with transaction.atomic():
        stock.hold(2)
        kept.commit()
        with transaction.atomic():
            stock.hold(3).commit(quantity=1)
            transaction.set_rollback(True)
        transaction.set_rollback(True)
    assert (stock.value(), sums()) == (9, (1, 0))


def test_the_floor_is_the_declared_one_or_zero(db: None) -> None:
    with pytest.raises(InsufficientCount):
        holds.hold("plain:nothing", 1)
    assert not CounterHold.objects.exists()


@pytest.mark.parametrize("key", ["likes:x", "views:x", "hits:x", "clicks:x"])
def test_counters_that_cannot_promise_it_are_refused(key: str) -> None:
    with pytest.raises(UnsupportedHold):
        holds.hold(key, 1)
    with pytest.raises(UnsupportedHold):
        holds.stocktake(key)
    assert not CounterHold.objects.exists()


CHANGED: list[Any] = [
    {"STRATEGY": "sharded"},
    {"STRATEGY": "sharded", "FLOOR": 0},
    pytest.param({"STRATEGY": "ledger"}, marks=pytest.mark.postgresql),
    {"STRATEGY": "cached"},
]


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("changed", CHANGED)
def test_open_holds_outlive_a_change_of_strategy(changed: dict[str, Any]) -> None:
    """They end as before, and what comes back is in the total at once, wherever others count."""
    key, objects = "stock:lamp", Counter.objects
    objects.increment(key, 10)
    released, sold, parted, given, late = (holds.hold(key, 1) for _ in range(5))
    with override_counters(stock=changed):
        objects.increment(key, 3)
        with pytest.raises(UnsupportedHold):
            holds.hold(key, 1)
        before = objects.read(key)
        assert before.value == 8
        assert released.release()
        assert objects.read(key).total == before.total + 1
        assert sold.commit().sold == 1
        assert parted.extend(minutes=40).commit().sold == 1
        holds.release(given.token, reason="the customer is gone", actor="boss")
        assert [one.token for one in holds.of(key)] == [late.token]
        pass_time()
        assert expire_holds() == 1
        # Available and sold are what was there.
        assert (objects.value(key), sums()) == (11, (0, 2))


def test_a_stocktake_of_what_was_never_counted_and_of_what_is_collected(db: None) -> None:
    assert holds.stocktake("stock:lamp") == Parts(0, 0, 0)
    with Counter.objects.collect():
        Counter.objects.increment("stock:lamp", 3)
        assert holds.stocktake("stock:lamp") == Parts(3, 0, 0)


def test_fields_and_records(db: None) -> None:
    with pytest.raises(UnsupportedHold):
        holds.hold(Song.objects.create().plays, 1)
    with pytest.raises(UnsavedInstance):
        holds.hold(Product().stock, 1)
    product = Product.objects.create()
    product.stock.increment(5)
    hold = holds.hold(product.stock, 2)
    assert (product.stock, hold.field, hold.key) == (3, "testapp.Product.stock", str(product.pk))
    gone = holds.hold(product.stock, 1, token="late")
    Product.objects.all().delete()
    with pytest.raises(RecordMissing):
        holds.hold(Product.stock.of(int(hold.key)), 1)
    with pytest.raises(RecordMissing):
        holds.stocktake(Product.stock.of(int(hold.key)))
    # They ended with the records, and there is nothing to give back.
    assert not hold.release()
    pass_time()
    assert (expire_holds(), sums()) == (0, (0, 0))
    assert holds.find(gone.token).state == "released"


def test_a_hold_of_a_model_that_is_gone_is_an_incident(db: None) -> None:
    of_key("stock:lamp").increment(3)
    holds.hold("stock:lamp", 3)
    CounterHold.objects.update(field="gone.Model.stock")
    pass_time()
    assert expire_holds() == 1
    incident = CounterIncident.objects.get()
    assert (incident.subject, incident.detail["quantity"]) == ("gone.Model.stock:stock:lamp", 3)


@pytest.mark.parametrize("wrong", [0, -1, 1.5, True, "2"])
def test_what_is_no_quantity_or_time(wrong: Any) -> None:
    with pytest.raises(InvalidDelta):
        holds.hold("stock:lamp", wrong)
    with pytest.raises(InvalidDelta):
        holds.hold("stock:lamp", 1, minutes=wrong if wrong != 1.5 else 10**6)


def test_what_is_no_note(db: None) -> None:
    for note, why in (("x" * 256, "at most 255 characters"), ("a\0b", "controls the display")):
        with pytest.raises(ValueError, match=why):
            holds.hold("stock:lamp", note=note)


def test_what_is_no_token(db: None) -> None:
    for wrong in "", "a\0b", 5:
        with pytest.raises(InvalidToken):
            holds.hold("stock:lamp", 1, token=wrong)  # type: ignore[arg-type]
    with pytest.raises(HoldMissing):
        holds.find("nobody")


def test_signals_tell_of_what_is_taken_and_of_what_comes_back(stock: Stock) -> None:
    told: list[int] = []

    def hear(batch: Any, **_: Any) -> None:
        told.extend(delta.by for delta in batch.deltas)

    batch_applied.connect(hear)
    try:
        stock.hold(4, token="a")
        stock.hold(4, token="a")
        stock.hold(1).release()
        stock.hold(5).commit(quantity=2)
    finally:
        batch_applied.disconnect(hear)
    assert told == [-4, -1, 1, -5, 3]


def test_verify_tells_of_what_nobody_gives_back(stock: Stock) -> None:
    stock.hold(4)
    assert verify().drifts == []
    pass_time(60 + 14)
    assert verify().drifts == []
    pass_time(2)
    ((_, expected, found),) = verify().drifts
    assert (expected, found) == (0, 4)
    expire_holds()
    assert verify().drifts == []


def test_a_stocktake_tells_all_three(stock: Stock) -> None:
    stock.hold(4).commit(quantity=3)
    stock.hold(2)
    stock.hold(1).release()
    assert stock.stocktake() == Parts(available=5, held=2, sold=3)
    assert stock.stocktake().total == 10
    pass_time()
    assert stock.stocktake() == Parts(5, 2, 3)
    expire_holds()
    assert stock.stocktake() == Parts(7, 0, 3)


def test_what_ended_long_ago_is_forgotten(stock: Stock) -> None:
    hold, kept = stock.hold(4), stock.hold(1)
    hold.commit()
    assert prune_holds() == 0
    pass_time(60 * 24 * 31)
    assert (prune_holds(), prune_holds()) == (1, 0)
    with pytest.raises(HoldMissing):
        hold.commit()
    assert holds.find(kept.token).state == "expired"
    # What is sold is known for as long.
    assert stock.stocktake() == Parts(5, 1, 0)


@pytest.mark.django_db(transaction=True)
def test_async_code(stock: Stock) -> None:
    async def work() -> list[str]:
        first = await holds.ahold("stock:async", 2)
        await first.aextend(minutes=20)
        await first.acommit(1)
        second = await holds.ahold("stock:async", 2)
        held = await holds.aof("stock:async")
        assert await holds.astocktake("stock:async") == Parts(2, 2, 1)
        await second.arelease()
        found = await holds.afind(second.token)
        return [one.state for one in (*held, found)]

    Counter.objects.increment("stock:async", 5)
    assert async_to_sync(work)() == ["held", "released"]
    assert Counter.objects.value("stock:async") == 4
