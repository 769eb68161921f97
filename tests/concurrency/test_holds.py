"""Holds under many processes, some of them killed: available + held + sold is always the stock."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from functools import partial

import pytest
from django.db import transaction

from django_counters.contrib import holds
from django_counters.contrib.holds.errors import HoldEnded
from django_counters.contrib.holds.holding import Hold
from django_counters.contrib.holds.models import CounterHold
from django_counters.contrib.holds.upkeep import expire_holds
from django_counters.models import Counter
from django_counters.testing import override_counters
from tests.concurrency.crowd import Threads
from tests.concurrency.holding import sell
from tests.holds.conftest import pass_time
from tests.stores.test_failures import wait_for_lock
from tests.testapp.models import Product

pytestmark = [pytest.mark.many_writers, pytest.mark.django_db(transaction=True)]
KEY = "stock:lamp"


@pytest.fixture(autouse=True)
def _declared() -> Iterator[None]:
    with override_counters(stock={"FLOOR": 0}):
        yield


def _stock(kind: str, quantity: int) -> None:
    Counter.objects.increment(KEY, quantity)
    Product.objects.create(stock=quantity)


@pytest.mark.parametrize("kind", ["named", "field"])
def test_all_of_it_is_sold_and_no_more(kind: str) -> None:
    _stock(kind, 150)
    assert sell(kind, 150) > 0


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["named", "field"])
def test_all_of_much_is_sold_and_no_more(kind: str) -> None:
    Counter.objects.increment(KEY, 1200)
    Product.objects.create(stock=1000)
    Product.objects.update(stock=1200)
    assert sell(kind, 1200) > 0


def test_one_token_from_all_sides_takes_once() -> None:
    _stock("named", 100)
    ways: list[Callable[..., Hold]] = [
        partial(holds.hold, KEY),
        partial(holds.hold, Product.stock.of(Product.objects.get().pk)),
    ]
    for hold in ways:
        CounterHold.objects.all().delete()
        made = Threads(16).run(lambda _, hold=hold: hold(3, token="cart"))  # type: ignore[misc]
        assert sorted(one.replayed for one in made) == [False] + [True] * 15
        assert CounterHold.objects.count() == 1
    assert (Counter.objects.value(KEY), Product.objects.get().stock) == (97, 97)


def test_one_hold_ends_once_from_all_sides() -> None:
    _stock("named", 100)
    hold = holds.hold(KEY, 4, token="cart")
    ways = [hold.commit, lambda: hold.commit(quantity=1), hold.release, expire_holds]

    def work(number: int) -> object:
        try:
            return ways[number % 4]()
        except HoldEnded:
            return None

    Threads(16).run(work)
    row = CounterHold.objects.get()
    assert row.state != row.State.HELD
    assert Counter.objects.value(KEY) + row.sold == 100


def test_expirers_give_back_once() -> None:
    _stock("named", 100)
    for number in range(40):
        holds.hold(KEY, 2, token=str(number))
    pass_time()
    ended = Threads(8).run(lambda _: expire_holds())
    assert (sum(ended), Counter.objects.value(KEY)) == (40, 100)


def test_a_sale_that_is_under_way_is_not_given_back() -> None:
    """Its time passes before it commits: the row is held until then."""
    _stock("named", 10)
    hold = holds.hold(KEY, 4)
    under_way, looked = threading.Event(), threading.Event()

    def work(number: int) -> int:
        if number:
            under_way.wait(60)
            pass_time_of_others()
            ended = expire_holds()
            looked.set()
            return ended
        with transaction.atomic():
            hold.commit()
            under_way.set()
            assert looked.wait(60)
        return 0

    def pass_time_of_others() -> None:
        holds.hold(KEY, 1, token="late")
        CounterHold.objects.filter(token="late").update(expires_at="2020-01-01T00:00Z")

    assert Threads(2).run(work) == [0, 1]
    assert (Counter.objects.value(KEY), holds.find(hold.token).sold) == (6, 4)


def test_nobody_is_refused_while_somebody_gives_back() -> None:
    """Who asks for what is over waits for whoever is giving it back."""
    _stock("named", 10)
    holds.hold(KEY, 10)
    pass_time()
    giving = threading.Event()

    def work(number: int) -> int:
        if number:
            giving.wait(60)
            return holds.hold(KEY, 10).quantity
        with transaction.atomic():
            expire_holds()
            giving.set()
            wait_for_lock()
        return 0

    assert Threads(2).run(work) == [0, 10]
