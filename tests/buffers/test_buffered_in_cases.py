"""Buffers in a test case, which is always rolled back: nothing may land when it is over."""

from __future__ import annotations

import pytest
from asgiref.sync import async_to_sync

from django_counters.contrib import buffers
from django_counters.contrib.buffers.process import buffers as present
from django_counters.models import Counter
from django_counters.testing import override_counters

pytestmark = pytest.mark.django_db


def test_it_is_counted_as_without_one() -> None:
    with override_counters(hits={"BUFFER": {"seconds": 3600}}):
        handle = buffers.handle("hits:case")
        assert Counter.objects.increment("hits:case") == 1
        handle.increment()
        assert Counter.objects.increment_many({"hits:case": 2, "hits:b": 1})["hits:case"] == 4
        assert Counter.objects.value("hits:case") == 4
        assert not any(waits.entries for _, waits in present.waiting("default"))


def test_an_event_loop_counts_in_its_transaction() -> None:
    with override_counters(hits={"BUFFER": {"seconds": 3600}}):
        handle = buffers.handle("hits:case")

        async def work() -> None:
            handle.increment()
            assert await Counter.objects.avalue("hits:case") == 1

        async_to_sync(work)()
        assert Counter.objects.value("hits:case") == 1
        assert not any(waits.entries for _, waits in present.waiting("default"))
