"""What processes do to a counter with a floor that is spread over rows."""

from __future__ import annotations

import random
from typing import Any

from django.db import OperationalError, transaction

from django_counters.errors import InsufficientCount
from django_counters.models import Counter
from django_counters.testing import override_counters
from django_counters.upkeep import rollup
from tests.testapp.models import Concert

DECLARED: dict[str, Any] = {"stock": {"STRATEGY": "sharded", "FLOOR": 0}}


def buy(number: int, pk: int | None) -> int:
    """Buy until even one is refused; how many. Some purchases are rolled back, some take long."""
    chance = random.Random(number)
    sold = 0
    with override_counters(**DECLARED):
        while True:
            wanted = chance.choice((1, 1, 1, 2, 3))
            try:
                with transaction.atomic():
                    take(pk, wanted)
                    if chance.random() < 0.1:
                        transaction.set_rollback(True)
                        wanted = 0
                sold += wanted
            except InsufficientCount as error:
                if not error.available < wanted:
                    raise AssertionError("refused while there was enough") from error
                if wanted == 1:
                    return sold


def take(pk: int | None, wanted: int) -> None:
    if pk is None:
        Counter.objects.decrement("stock:a", wanted)
    else:
        Concert.objects.get(pk=pk).seats.decrement(wanted)


def disturb(number: int, pk: int | None, times: int) -> tuple[int, int]:
    """Adjust up and down, deliver, and roll up: by how much in all, and the least value seen."""
    chance = random.Random(-number)
    added, least = 0, 0
    with override_counters(**DECLARED):
        for turn in range(times):
            by = chance.choice((-2, 1, 3))
            try:
                if turn % 2:
                    added += by if _adjusted(pk, by) else 0
                elif by > 0:
                    _deliver(pk, by)
                    added += by
            except OperationalError as error:
                # PostgreSQL ends a circle of those who wait for each other: nothing was changed.
                if "deadlock" not in str(error):
                    raise
            rollup()
            least = min(least, value(pk))
    return added, least


def _adjusted(pk: int | None, by: int) -> bool:
    try:
        if pk is None:
            Counter.objects.adjust("stock:a", by=by, reason="counted", actor="ann")
        else:
            Concert.objects.get(pk=pk).seats.adjust(by=by, reason="counted", actor="ann")
    except InsufficientCount:
        return False
    return True


def _deliver(pk: int | None, by: int) -> None:
    if pk is None:
        Counter.objects.increment("stock:a", by)
    else:
        Concert.objects.get(pk=pk).seats.increment(by)


def value(pk: int | None) -> int:
    if pk is None:
        return Counter.objects.value("stock:a")
    return Concert.objects.get(pk=pk).seats.read().value


def take_part(number: int, pk: int | None, buyers: int, times: int) -> tuple[int, int, int]:
    """Be one of the buyers, or disturb them: how many were sold, added, and the least value."""
    if number < buyers:
        return buy(number, pk), 0, 0
    return 0, *disturb(number, pk, times)
