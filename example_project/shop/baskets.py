"""Baskets: what somebody is about to buy is held until it is paid for, given back, or over.

The number of a basket is the token of its hold, and becomes that of the order.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple
from uuid import UUID

from django_counters.contrib import holds
from django_counters.contrib.holds.errors import HoldMissing
from django_counters.contrib.holds.holding import Hold
from example_project.shop.models import Product
from example_project.shop.orders import Placed, order
from example_project.tally import BASKET_SECONDS, STOCK


class Basket(NamedTuple):
    """What is held of a product."""

    number: UUID
    product: Product
    hold: Hold


def put(product: Product, quantity: int, number: UUID) -> Hold:
    """Hold so much of the stock; the same number puts it there once.

    Raises:
        InsufficientCount: there is less in stock; nothing was held.
        TokenConflict: the number is that of another basket.
    """
    return holds.hold(
        product.stock, quantity, minutes=BASKET_SECONDS / 60, token=number, note="a basket"
    )


def find(number: UUID) -> Basket:
    """A basket, as it is now.

    Raises:
        HoldMissing: there is none.
    """
    hold = holds.find(number)
    if hold.field != STOCK:
        raise HoldMissing(token=hold.token)
    return Basket(number, Product.objects.get(pk=hold.key), hold)


def check_out(basket: Basket, quantity: int, buyer: str) -> Placed:
    """Order what a basket holds, or a part of it: the rest goes back in the same transaction.

    Raises:
        HoldExpired, HoldEnded: it is not held any more; nothing was ordered.
        InvalidDelta: it holds less.
    """
    sell = partial(basket.hold.commit, quantity)
    placed = order(basket.product, quantity, buyer, basket.number, sell)
    # The rest has come back.
    placed.order.product.refresh_from_db(fields=["stock"])
    return placed
