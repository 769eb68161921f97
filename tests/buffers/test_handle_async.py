"""Handles in event loops: what they count is part of the transaction that is open, or waits."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.db import transaction
from django.template import Context, Template

from django_counters.contrib import buffers
from django_counters.contrib.buffers.counting import Handle
from django_counters.contrib.buffers.process import buffers as present
from django_counters.errors import CounterUnavailable
from django_counters.models import Counter, CounterIncident
from django_counters.registry import registry
from django_counters.testing import override_counters
from tests.buffers.buffering import LATER, landed

pytestmark = [pytest.mark.django_db(transaction=True)]


@pytest.fixture(autouse=True)
def _hits() -> Iterator[None]:
    hits = {"BUFFER": LATER}
    present.clear()
    with override_counters(hits=hits, seen={**hits, "PER": ["hour", "day"]}):
        yield
    present.clear()


@pytest.fixture
def handle() -> Handle:
    return buffers.handle("hits:home")


def test_synchronous_code_waits_with_a_transaction(handle: Handle) -> None:
    async def later(by: int) -> None:
        handle.increment(by)

    async def work(by: int) -> None:
        handle.increment(by)
        await asyncio.create_task(later(by))

    async_to_sync(work)(1)
    with pytest.raises(KeyError), transaction.atomic():
        async_to_sync(work)(10)
        raise KeyError
    with transaction.atomic():
        async_to_sync(work)(100)
        assert Counter.objects.value("hits:home") == 2
    assert (landed(), Counter.objects.value("hits:home")) == (0, 202)


def test_a_template_counts_nothing(handle: Handle) -> None:
    text = "[{{ hit.increment }}{{ hit.increment }}{{ hit.decrement }}]"
    assert Template(text).render(Context({"hit": handle})) == "[]"
    assert Counter.objects.value("hits:home") == 0


def test_a_loop_of_its_own_counts_by_itself(handle: Handle) -> None:
    """To Django it has connections of its own, whatever its thread has open."""

    async def work() -> None:
        handle.increment()
        await Counter.objects.aincrement("hits:home")

    with pytest.raises(KeyError), transaction.atomic():
        asyncio.run(work())
        raise KeyError
    assert (landed(), Counter.objects.value("hits:home")) == (0, 2)


def test_what_nobody_hears_of_is_an_incident(handle: Handle, monkeypatch: Any) -> None:
    async def work() -> None:
        handle.increment(7)

    def away(*_: Any) -> None:
        raise CounterUnavailable(using="default", reason="it is away")

    monkeypatch.setattr("django_counters.contrib.buffers.counting.change", away)
    async_to_sync(work)()
    (incident,) = CounterIncident.objects.filter(kind="lost")
    assert incident.detail["amounts"] == {"hits:home": 7}


def test_its_periods_are_asked_for_once() -> None:
    handle = buffers.handle("seen:a")

    async def work() -> None:
        for _ in range(2):
            handle.increment()

    registry.forget_strategies()
    asyncio.run(work())
    buffers.flush()
    assert landed("seen:a") == 2
