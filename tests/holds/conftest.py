"""Stock that is held, of a named counter and of a field."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from functools import partial
from typing import Any, NamedTuple

import pytest
from django.db.models import F

from django_counters.contrib import holds
from django_counters.contrib.holds.holding import Hold
from django_counters.contrib.holds.holding import Stock as Parts
from django_counters.contrib.holds.models import CounterHold
from django_counters.models import Counter
from django_counters.testing import override_counters
from tests.testapp.models import Product

DECLARED: dict[str, Any] = {
    "stock": {"FLOOR": 0},
    "seats": {"FLOOR": 0, "PER": ["day"]},
    "likes": {"ONCE": True},
    "views": {"STRATEGY": "sharded"},
    "hits": {"STRATEGY": "ledger"},
    "clicks": {"STRATEGY": "cached"},
}


class Stock(NamedTuple):
    """One counter, whatever it is."""

    hold: Callable[..., Hold]
    holds: Callable[..., list[Hold]]
    value: Callable[[], int]
    increment: Callable[..., Any]
    stocktake: Callable[[], Parts]


def of_key(key: str) -> Stock:
    """A named counter."""
    return _stock(key, partial(Counter.objects.value, key), partial(Counter.objects.increment, key))


def of_field() -> Stock:
    """A counter of a record."""
    stock = Product.stock.of(Product.objects.create().pk)
    return _stock(stock, stock.value, stock.increment)


def _stock(counter: Any, value: Callable[[], int], increment: Callable[..., Any]) -> Stock:
    return Stock(
        partial(holds.hold, counter),
        partial(holds.of, counter),
        value,
        increment,
        partial(holds.stocktake, counter),
    )


KINDS = ("stock:lamp", "seats:hall", "field")


@pytest.fixture(autouse=True)
def _declared() -> Iterator[None]:
    with override_counters(**DECLARED):
        yield


@pytest.fixture(params=KINDS)
def stock(request: pytest.FixtureRequest, db: None) -> Stock:
    """A counter of each kind, with ten units."""
    made = of_field() if request.param == "field" else of_key(request.param)
    made.increment(10)
    return made


def pass_time(minutes: float = 60) -> None:
    """Let all that is held be so many minutes older, by the clock of the database."""
    CounterHold.objects.update(expires_at=F("expires_at") - timedelta(minutes=minutes))


def sums() -> tuple[int, int]:
    """How much is held, and how much is sold."""
    rows = CounterHold.objects.values_list("state", "quantity", "sold")
    return sum(q for state, q, _ in rows if not state), sum(sold for *_, sold in rows)
