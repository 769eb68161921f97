"""Orders in the ledger: one entry for each, however often it is sent."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import timedelta
from decimal import Decimal
from uuid import UUID

import pytest
from django.db import connection, connections
from django.test import Client
from django.utils import timezone

from django_counters import InsufficientCount, token_of
from django_counters.models import Counter, CounterDelta, CounterHorizon, CounterPartition
from django_counters.stores.sql.partitions import SqlPartitions
from django_counters.testing import override_counters
from django_counters.upkeep.partitions import maintain
from django_counters.upkeep.rollup import rollup
from django_counters.upkeep.verify import verify
from example_project import seeds
from example_project.settings import COUNTERS
from example_project.shop.models import Order, Product
from example_project.shop.orders import new_number, place
from example_project.tally import ORDERS, REPLAYED_HEADER
from tests.settling import roll_up


@pytest.fixture
def lamp(db: None) -> Iterator[Product]:
    with override_counters(**COUNTERS):
        yield Product.objects.create(name="Lamp", slug="lamp", price=Decimal(19), stock=3)


def left(product: Product) -> int:
    return int(Product.objects.get(pk=product.pk).stock)


def state(product: Product) -> tuple[int, int, int]:
    """What is left, how many orders there are, and how many are counted."""
    return left(product), Order.objects.count(), Counter.objects.value(ORDERS)


def test_an_order_is_one_entry_whose_token_is_its_number(client: Client, lamp: Product) -> None:
    client.post(f"/shop/{lamp.pk}/buy", {"quantity": 2})
    (entry,) = Counter.objects.explain(ORDERS).entries
    assert (entry.token, entry.delta) == (Order.objects.get().number, 1)
    assert state(lamp) == (1, 1, 1)


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


def test_every_page_has_a_number_of_its_own(client: Client, lamp: Product) -> None:
    numbers = {number_in_the_form(client.get(f"/shop/{lamp.pk}/").content.decode()) for _ in "ab"}
    assert len(numbers) == 2
    assert {number.version for number in numbers} == {7}


def number_in_the_form(page: str) -> UUID:
    (field,) = [part for part in page.split("<input") if 'name="number"' in part]
    return UUID(field.partition('value="')[2][:36])


def test_a_refused_order_is_not_counted_and_may_be_sent_again(lamp: Product) -> None:
    number = new_number()
    with pytest.raises(InsufficientCount):
        place(lamp, 4, "Ada", number)
    assert state(lamp) == (3, 0, 0)
    lamp.stock.increment(1)
    assert not place(lamp, 4, "Ada", number).replayed
    assert state(lamp) == (0, 1, 1)


@pytest.mark.parametrize(
    "number",
    [
        pytest.param(token_of("old", timezone.now() - timedelta(days=3)), id="three days old"),
        pytest.param(token_of("new", timezone.now() + timedelta(days=3)), id="three days ahead"),
    ],
)
def test_a_number_that_is_too_old_orders_nothing_and_gets_a_new_form(
    client: Client, lamp: Product, number: UUID
) -> None:
    answer = client.post(f"/shop/{lamp.pk}/buy", {"quantity": 1, "number": str(number)})
    page = answer.content.decode()
    assert (answer.status_code, "too old" in page) == (400, True)
    assert number_in_the_form(page) != number
    assert state(lamp) == (3, 0, 0)


def test_a_number_that_is_none_is_a_bad_request(client: Client, lamp: Product) -> None:
    answer = client.post(f"/shop/{lamp.pk}/buy", {"quantity": 1, "number": "seven"})
    assert (answer.status_code, state(lamp)) == (400, (3, 0, 0))


@pytest.mark.postgres
def test_an_order_sent_by_many_at_once_is_ordered_once(
    transactional_db: None, lamp: Product
) -> None:
    number, start = new_number(), threading.Barrier(8)
    replayed: list[bool] = []

    def send() -> None:
        try:
            start.wait()
            replayed.append(place(Product.objects.get(pk=lamp.pk), 1, "Ada", number).replayed)
        finally:
            connections.close_all()

    threads = [threading.Thread(target=send) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(replayed) == [False] + [True] * 7
    assert state(lamp) == (2, 1, 1)


def test_a_fresh_start_takes_the_orders_out_of_the_ledger(lamp: Product) -> None:
    place(lamp, 1, "Ada")
    rollup()
    place(lamp, 1, "Ada")
    CounterDelta.objects.append("other:ledger", 5)
    seeds.clear_site()
    assert Counter.objects.values_of([ORDERS, "other:ledger"]) == {ORDERS: 0, "other:ledger": 5}
    assert [entry.key for entry in CounterDelta.objects.all()] == ["other:ledger"]
    rollup()
    assert verify().drifts == []


@pytest.mark.postgres
def test_a_fresh_start_leaves_sealed_partitions_in_order(
    transactional_db: None, lamp: Product
) -> None:
    long_ago = timezone.now() - timedelta(hours=40)
    for number, key in enumerate((ORDERS, ORDERS, "other:ledger")):
        CounterDelta.objects.append(key, 5, token=token_of(f"{number}", long_ago))
    roll_up()
    # With a shorter window of tokens their partition can be sealed now.
    CounterHorizon.objects.update(token_window=timedelta(hours=1))
    maintain()
    assert CounterPartition.objects.filter(entries=3, delta_sum=15).count() == 1
    seeds.clear_site()
    assert CounterPartition.objects.filter(entries=1, delta_sum=5).count() == 1
    assert verify().drifts == []
    open_again()


def open_again() -> None:
    """What comes after this test needs the partitions of the last days."""
    with connection.cursor() as cursor:
        for extent in SqlPartitions("default").present():
            cursor.execute(
                f"ALTER TABLE {extent.name} DROP CONSTRAINT IF EXISTS django_counters_sealed"
            )
