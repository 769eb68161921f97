"""The shop: an order is taken from the stock and is one entry, however often it is sent."""

from __future__ import annotations

from decimal import Decimal

import pytest
from django.test import Client

from django_counters.models import Counter
from django_counters.upkeep import rollup
from example_project.shop.models import Order, Product
from example_project.shop.orders import new_number
from example_project.tally import ORDERS, REPLAYED_HEADER


@pytest.fixture
def lamp(db: None) -> Product:
    return Product.objects.create(name="Lamp", slug="lamp", price=Decimal(19), stock=3)


def left(product: Product) -> int:
    return int(Product.objects.get(pk=product.pk).stock)


def state(product: Product) -> tuple[int, int, int]:
    """What is left, how many orders there are, and how many are counted."""
    return left(product), Order.objects.count(), Counter.objects.value(ORDERS)


def test_a_form_that_is_sent_again_orders_once(client: Client, lamp: Product) -> None:
    form = {"quantity": 1, "buyer": "Ada", "number": str(new_number())}
    first, *others = [client.post(f"/shop/{lamp.pk}/buy", form) for _ in range(3)]
    assert REPLAYED_HEADER not in first.headers
    for again in others:
        assert (again.status_code, again.headers[REPLAYED_HEADER]) == (200, "true")
        assert again.context["order"] == Order.objects.get()
        assert "ordered before" in again.content.decode()
    assert state(lamp) == (2, 1, 1)
    rollup()
    client.post(f"/shop/{lamp.pk}/buy", form)
    assert state(lamp) == (2, 1, 1)
