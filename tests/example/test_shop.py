"""The shop: an order exists if and only if its quantity was taken from the stock."""

from __future__ import annotations

import threading
from decimal import Decimal

import pytest
from django.db import connections
from django.db.models import Sum
from django.test import Client

from django_counters import InsufficientCount
from django_counters.models import Counter
from example_project.shop.models import Order, Product
from example_project.shop.orders import place


@pytest.fixture
def lamp(db: None) -> Product:
    return Product.objects.create(name="Lamp", slug="lamp", price=Decimal(19), stock=3)


def stock(product: Product) -> int:
    return int(Product.objects.get(pk=product.pk).stock)


def test_buying_takes_from_the_stock_and_makes_an_order(client: Client, lamp: Product) -> None:
    answer = client.post(f"/shop/{lamp.pk}/buy", {"quantity": 2, "buyer": "Ada"})
    assert answer.status_code == 200
    assert stock(lamp) == 1
    assert Order.objects.values_list("product", "quantity", "buyer").get() == (lamp.pk, 2, "Ada")


def test_too_much_is_refused_with_what_is_available(client: Client, lamp: Product) -> None:
    answer = client.post(f"/shop/{lamp.pk}/buy", {"quantity": 4})
    assert answer.status_code == 409
    assert "Only 3 left, you wanted 4." in answer.content.decode()
    assert (stock(lamp), Order.objects.count()) == (3, 0)


def test_sold_out(client: Client, lamp: Product) -> None:
    client.post(f"/shop/{lamp.pk}/buy", {"quantity": 3})
    answer = client.post(f"/shop/{lamp.pk}/buy", {"quantity": 1})
    assert (answer.status_code, stock(lamp)) == (409, 0)
    assert "Sold out." in answer.content.decode()


@pytest.mark.parametrize("quantity", ["", "0", "-1", "1.5", "many", "101"])
def test_a_wrong_quantity_is_a_bad_request(client: Client, lamp: Product, quantity: str) -> None:
    assert client.post(f"/shop/{lamp.pk}/buy", {"quantity": quantity}).status_code == 400
    assert (stock(lamp), Order.objects.count()) == (3, 0)


def test_buying_needs_the_token_of_the_page(lamp: Product) -> None:
    browser = Client(enforce_csrf_checks=True)
    assert browser.post(f"/shop/{lamp.pk}/buy", {"quantity": 1}).status_code == 403
    browser.get(f"/shop/{lamp.pk}/")
    form = {"quantity": 1, "csrfmiddlewaretoken": browser.cookies["csrftoken"].value}
    assert browser.post(f"/shop/{lamp.pk}/buy", form).status_code == 200
    assert stock(lamp) == 2


def test_pages_show_the_stock_and_count_their_visits(client: Client, lamp: Product) -> None:
    assert "3 left" in client.get("/shop/").content.decode()
    assert "3 left" in client.get(f"/shop/{lamp.pk}/").content.decode()
    client.head("/shop/")
    assert Counter.objects.values_of(["visits:shop", f"visits:product-{lamp.pk}"]) == {
        "visits:shop": 1,
        f"visits:product-{lamp.pk}": 1,
    }


@pytest.mark.postgres
def test_many_buyers_at_once_cannot_oversell(transactional_db: None, lamp: Product) -> None:
    lamp.stock.increment(17)
    refused: list[int] = []
    start = threading.Barrier(8)

    def buy() -> None:
        try:
            start.wait()
            for _ in range(3):
                try:
                    place(Product.objects.get(pk=lamp.pk), 2, "somebody")
                except InsufficientCount as refusal:
                    refused.append(refusal.available)
        finally:
            connections.close_all()

    threads = [threading.Thread(target=buy) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (stock(lamp), refused) == (0, [0] * 14)
    assert Order.objects.aggregate(sum=Sum("quantity")) == {"sum": 20}
