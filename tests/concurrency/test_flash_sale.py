"""Buyers who want the last units at once."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import pytest

from django_counters.errors import InsufficientCount
from django_counters.models import Counter
from django_counters.testing import override_counters
from django_counters.types import Result
from tests.concurrency.crowd import Threads
from tests.testapp.models import Product

pytestmark = [pytest.mark.many_writers, pytest.mark.django_db(transaction=True)]
STOCK = 500
BUYERS = 32


@dataclass(frozen=True)
class Purchase:
    """One attempt; ``left`` is what the counter said was left, None where it refused."""

    wanted: int
    began: float
    ended: float
    left: int | None


def shop(buy: Callable[[int], Result], number: int) -> list[Purchase]:
    """Buy one to three units, again and again, until even a single one is refused."""
    chance = random.Random(number)
    history: list[Purchase] = []
    while len(history) <= STOCK:
        wanted = chance.choice((1, 1, 2, 3))
        began = time.monotonic()
        try:
            left: int | None = buy(wanted).value
        except InsufficientCount as error:
            if not error.available < error.requested == wanted:
                raise AssertionError("refused while there was enough") from error
            left = None
        history.append(Purchase(wanted, began, time.monotonic(), left))
        if left is None and wanted == 1:
            return history
    raise AssertionError("one buyer alone got more than there was")


def check(history: list[Purchase], left: int) -> None:
    sold = [purchase for purchase in history if purchase.left is not None]
    assert left == 0
    assert sum(purchase.wanted for purchase in sold) == STOCK
    # Every returned value is the one and only state after that purchase.
    assert sorted(p.left for p in sold) == sorted({p.left for p in sold})  # type: ignore[type-var]
    assert min(p.left for p in sold) == 0  # type: ignore[type-var]
    for refused in (purchase for purchase in history if purchase.left is None):
        before = [p.left for p in sold if p.began <= refused.ended and p.left is not None]
        # The stock only falls: it was already too low when the refusal came back.
        assert min(before, default=STOCK) < refused.wanted


def buyers(buy: Callable[[int], Result]) -> list[Purchase]:
    histories = Threads(BUYERS).run(partial(shop, buy))
    return [purchase for history in histories for purchase in history]


def test_a_named_counter_with_a_floor() -> None:
    Counter.objects.increment("stock", STOCK)
    history = buyers(lambda wanted: Counter.objects.decrement("stock", wanted, floor=0))
    check(history, Counter.objects.value("stock"))


def test_a_field_with_a_floor() -> None:
    product = Product.objects.create(stock=STOCK)

    def buy(wanted: int) -> Result:
        return Product.objects.get(pk=product.pk).stock.decrement(wanted)

    check(buyers(buy), Product.objects.get().stock)


def test_a_cart() -> None:
    with override_counters(stock={"FLOOR": 0}):
        Counter.objects.increment_many({"stock:a": STOCK, "stock:b": STOCK})

        def buy(wanted: int) -> Result:
            left = Counter.objects.decrement_many({"stock:b": wanted, "stock:a": wanted})
            assert left["stock:a"] == left["stock:b"]
            return left["stock:a"]

        check(buyers(buy), Counter.objects.value("stock:a"))
        assert Counter.objects.value("stock:b") == 0
