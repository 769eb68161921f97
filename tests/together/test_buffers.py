"""Buffers beside a ledger: pages that wait while their counters become entries."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.db import transaction

from django_counters import clock
from django_counters.contrib import buffers, series
from django_counters.contrib.buffers.process import buffers as present
from django_counters.models import Counter, CounterDelta
from django_counters.testing import override_counters
from django_counters.upkeep import verify
from tests.buffers.buffering import LATER, landed
from tests.settling import roll_up

pytestmark = pytest.mark.django_db(transaction=True)
PERIODS: dict[str, Any] = {"PER": ["hour", "day"], "TAGS": {"country": 3}}
LEDGER = {"STRATEGY": "ledger", **PERIODS}


@pytest.fixture(autouse=True)
def _empty() -> Iterator[None]:
    present.clear()
    yield
    present.clear()


@pytest.fixture(params=["exact", "sharded"])
def buffered(request: pytest.FixtureRequest) -> dict[str, Any]:
    """A namespace whose increments wait in this process."""
    return {"STRATEGY": request.param, "BUFFER": LATER, **PERIODS}


def days(key: str = "hits:home") -> dict[str | None, int]:
    found = series.of(key).per("day").last(5).by("country").total()
    return {country: number for country, number in found.items() if number}


def test_pages_land_once_after_the_namespace_became_a_ledger(buffered: dict[str, Any]) -> None:
    with override_counters(hits=buffered):
        Counter.objects.increment("hits:home", 5, tags={"country": "DE"})
        Counter.objects.increment("hits:home", 2, at=clock.utc() - timedelta(days=3))
    with override_counters(hits=LEDGER):
        Counter.objects.increment("hits:home", 30, tags={"country": "FR"})
        for _ in range(2):
            buffers.flush()
            roll_up()
            assert Counter.objects.value("hits:home") == landed() == 37
            assert days() == {"DE": 5, "FR": 30, None: 2}
        assert verify().drifts == []


def test_entries_stay_where_a_buffer_is_put_in_front(buffered: dict[str, Any]) -> None:
    with override_counters(hits=LEDGER):
        Counter.objects.increment("hits:home", 30, tags={"country": "FR"})
    with override_counters(hits=buffered):
        Counter.objects.increment("hits:home", 5, tags={"country": "DE"})
        assert (landed(), Counter.objects.value("hits:home")) == (30, 35)
        roll_up()
        buffers.flush()
        assert (landed(), Counter.objects.value("hits:home")) == (35, 35)
        assert days() == {"DE": 5, "FR": 30}


@pytest.mark.parametrize("kept", [True, False], ids=["committed", "rolled back"])
def test_one_transaction_counts_in_both(buffered: dict[str, Any], kept: bool) -> None:
    """An entry ends with its transaction; so does an increment that would wait."""
    with override_counters(hits=buffered, log=LEDGER):
        with transaction.atomic(), Counter.objects.collect():
            Counter.objects.increment("hits:home", 2)
            Counter.objects.increment("log:home", 3)
            transaction.set_rollback(not kept)
        buffers.flush()
        roll_up()
        counted = Counter.objects.values_of(["hits:home", "log:home"])
        assert counted == {"hits:home": 2 * kept, "log:home": 3 * kept}
        assert CounterDelta.objects.count() == kept
