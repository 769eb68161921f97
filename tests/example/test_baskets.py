"""Baskets: what is in one is held, and is bought, given back, or over."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.test import Client
from django.utils.timezone import localtime, now

from django_counters import token_of
from django_counters.contrib import holds
from django_counters.contrib.holds.holding import Stock
from django_counters.contrib.holds.models import CounterHold
from django_counters.models import Counter
from example_project.corrections import noting
from example_project.shop import baskets
from example_project.shop.models import Order, Product
from example_project.shop.orders import new_number
from example_project.tally import (
    BASKET_SECONDS,
    ORDERS,
    REPLAYED_HEADER,
    SOLD_HEADER,
    Tally,
    Watched,
)
from tests.holds.conftest import pass_time

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _for_minutes(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in real life: a machine that is busy has to be in time."""
    monkeypatch.setattr(baskets, "BASKET_SECONDS", 60 * BASKET_SECONDS)


@pytest.fixture
def lamp(db: None) -> Product:
    return Product.objects.create(name="Lamp", slug="lamp", price=Decimal(19), stock=5)


def fill(client: Client, lamp: Product, quantity: int, number: UUID | None = None) -> Any:
    form = {"quantity": quantity, "number": str(number or new_number())}
    return client.post(f"/shop/{lamp.pk}/basket", form)


def check_out(client: Client, page: str, quantity: int) -> Any:
    return client.post(f"{page}checkout", {"quantity": quantity, "buyer": "Ada"})


def state(lamp: Product) -> tuple[Stock, int, int]:
    """The stock, how many orders there are, and how many are counted."""
    return holds.stocktake(lamp.stock), Order.objects.count(), Counter.objects.value(ORDERS)


def test_a_person_fills_a_basket_and_buys_a_part_of_it_once(client: Client, lamp: Product) -> None:
    number = new_number()
    answers = [fill(client, lamp, 3, number) for _ in range(2)]
    (page,) = {answer["Location"] for answer in answers}
    assert (page, state(lamp)) == (f"/shop/baskets/{number}/", (Stock(2, 3, 0), 0, 0))
    assert "Put into a basket" in client.get(lamp.get_absolute_url()).content.decode()
    shown = client.get(page)
    hold = shown.context["hold"]
    until = localtime(hold.expires_at).isoformat()
    assert f'Held for you until <time datetime="{until}"' in _text(shown)
    assert (hold.quantity, shown.context["product"]) == (3, lamp)
    assert check_out(client, page, 4).status_code == 400
    assert state(lamp) == (Stock(2, 3, 0), 0, 0)
    first, again = check_out(client, page, 2), check_out(client, page, 2)
    assert (first.status_code, first[SOLD_HEADER]) == (200, f"{lamp.pk} 2")
    assert "3 left" in _text(first)
    assert (again.status_code, again[REPLAYED_HEADER], SOLD_HEADER in again) == (200, "true", False)
    assert state(lamp) == (Stock(3, 0, 2), 1, 1)
    assert (Order.objects.get().number, Order.objects.get().quantity) == (number, 2)
    assert "2 of it were bought" in _text(client.get(page))
    assert client.post(f"{page}leave").status_code == 409


def test_what_is_given_back_or_over_is_not_sold(client: Client, lamp: Product) -> None:
    page = fill(client, lamp, 2)["Location"]
    for _ in range(2):
        assert client.post(f"{page}leave")["Location"] == lamp.get_absolute_url()
    assert "given back" in _text(client.get(page))
    late = fill(client, lamp, 5)["Location"]
    pass_time(BASKET_SECONDS)
    for one in (page, late):
        assert check_out(client, one, 1).status_code == 409
    assert "Its time is over" in _text(client.get(late))
    assert state(lamp) == (Stock(0, 5, 0), 0, 0)
    # Whoever needs it gets it.
    assert fill(client, lamp, 4).status_code == 302
    assert state(lamp) == (Stock(1, 4, 0), 0, 0)
    refused = fill(client, lamp, 2)
    assert (refused.status_code, "Only 1 left" in _text(refused)) == (409, True)


def test_what_is_no_basket(client: Client, lamp: Product) -> None:
    Counter.objects.increment("stock:other", 1)
    other = holds.hold("stock:other", 1, token=new_number())
    for number in (uuid4(), other.token):
        page = f"/shop/baskets/{number}/"
        answers = client.get(page), check_out(client, page, 1), client.post(f"{page}leave")
        assert [answer.status_code for answer in answers] == [404] * 3
    assert holds.find(other.token).state == "held"
    # No order can have it: it is of three days ago.
    page = fill(client, lamp, 1, token_of("old", now() - timedelta(days=3)))["Location"]
    assert check_out(client, page, 1).status_code == 400
    assert fill(client, lamp, 2, UUID(page.split("/")[-2])).status_code == 400
    assert fill(client, lamp, 0).status_code == 400
    strict = Client(enforce_csrf_checks=True)
    assert [strict.post(f"{page}{way}").status_code for way in ("checkout", "leave")] == [403] * 2
    assert state(lamp) == (Stock(4, 1, 0), 0, 0)


def test_the_edge_notes_what_is_sold_from_a_basket() -> None:
    tally, path = Tally(), f"/shop/baskets/{new_number()}/checkout"

    def ask(*headers: tuple[str, str]) -> None:
        def application(_: Any, start: Any) -> list[bytes]:
            start("200 OK", list(headers))
            return [b""]

        environ = {"REQUEST_METHOD": "POST", "PATH_INFO": path}
        list(Watched(application, tally)(environ, lambda *_: None))

    ask((SOLD_HEADER, "7 2"))
    ask((REPLAYED_HEADER, "true"))
    assert (tally.sums()["from baskets:7"], tally.sums()[ORDERS]) == (2, 1)


@pytest.mark.django_db(transaction=True)
def test_what_staff_give_back_is_no_restocking(client: Client, lamp: Product) -> None:
    fill(client, lamp, 2)
    tally = Tally()
    with noting(tally):
        lamp.stock.adjust(by=1, reason="A test", actor="clerk")
        holds.release(CounterHold.objects.get().token, reason="A test", actor="clerk")
    assert tally.sums()[f"restocked:{lamp.pk}"] == 1
    assert holds.stocktake(lamp.stock) == Stock(6, 0, 0)


def _text(answer: Any) -> str:
    text: str = answer.content.decode()
    return text
