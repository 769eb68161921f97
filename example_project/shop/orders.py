"""Orders: each is one entry of the ledger, so whoever orders again because of an error orders once.

The number of an order is a UUIDv7 that is made with the form. It is the token of the entry.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from functools import partial
from typing import NamedTuple
from uuid import UUID

from django.db import transaction
from django.utils import timezone

from django_counters import token_of
from django_counters.models import CounterDelta
from example_project.shop.models import Order, Product
from example_project.tally import ORDERS


class Placed(NamedTuple):
    """An order, and whether it was there already."""

    order: Order
    replayed: bool


def new_number() -> UUID:
    """A number that no other order has."""
    return token_of(secrets.token_hex(16), timezone.now())


def place(product: Product, quantity: int, buyer: str, number: UUID | None = None) -> Placed:
    """Create an order, count it, and take its quantity from the stock, in one transaction.

    With the number of an order that is there, nothing is done, and that order is returned.

    Raises:
        InsufficientCount: there is less in stock; nothing was ordered and nothing was taken.
        TokenExpired: the number is older than two days.
    """
    take = partial(product.stock.decrement, quantity)
    return order(product, quantity, buyer, number or new_number(), take)


def order(
    product: Product, quantity: int, buyer: str, number: UUID, take: Callable[[], object]
) -> Placed:
    """Create an order, count it, and ``take`` its quantity, in one transaction; once."""
    with transaction.atomic():
        # Nobody waits here but those who send the same order at the same time.
        if CounterDelta.objects.append(ORDERS, 1, token=number).replayed:
            return Placed(Order.objects.select_related("product").get(number=number), True)
        # Before the order: on MySQL its foreign key holds the product in share mode, and two buyers
        # who both change it then would wait for each other.
        take()
        made = Order(product=product, quantity=quantity, buyer=buyer, number=number)
        made.save(force_insert=True)
    return Placed(made, False)
