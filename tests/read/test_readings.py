"""Exact values of many counters, and what they are made of."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection, connections
from django.test.utils import CaptureQueriesContext

from django_counters.cached.flush import flush
from django_counters.cached.pending import RedisPending
from django_counters.models import Counter, CounterShard
from django_counters.reading import readings_of
from django_counters.testing import override_counters
from django_counters.types import Reading

pytestmark = pytest.mark.django_db(transaction=True)
SHARDED = {"STRATEGY": "sharded", "OPTIONS": {"shards": 4}}
LEDGER = {"STRATEGY": "ledger"}


def parts(reading: Reading) -> tuple[int, int, int, str]:
    return reading.value, reading.total, reading.pending, reading.consistency


@pytest.fixture
def counted(cached: str) -> Any:
    """A counter of each strategy, with something that has landed and something that waits."""
    with override_counters(likes=SHARDED, orders=LEDGER):
        Counter.objects.increment("plain", 5)
        Counter.objects.increment("likes:a", 7)
        Counter.objects.increment("orders:eu", 20)
        Counter.objects.increment("orders:eu", -3)
        Counter.objects.increment("views:a", 30)
        flush()
        Counter.objects.increment("views:a", 4)
        Counter.objects.increment("views:b", 1)
        yield cached


def test_what_lands_between_the_two_is_counted_once(
    counted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    send = RedisPending.send

    def landed_after(self: Any, request: Any) -> Any:
        answer = send(self, request)
        monkeypatch.undo()
        flush()
        return answer

    monkeypatch.setattr(RedisPending, "send", landed_after)
    assert parts(readings_of(["views:a"])["views:a"]) == (34, 34, 0, "exact")


@pytest.mark.django_db
def test_more_than_a_page_of_keys_are_all_there() -> None:
    CounterShard._base_manager.create(key="k4500", shard=1, value=2)
    with CaptureQueriesContext(connection) as queries:
        readings = readings_of([f"k{number}" for number in range(4501)])
    assert (len(readings), readings["k4500"].value, len(queries)) == (4501, 2, 3)


@pytest.mark.django_db(databases=["default", "other"])
def test_another_database() -> None:
    Counter.objects.increment("plain", 3, using="other")
    with CaptureQueriesContext(connections["default"]) as queries:
        assert readings_of(["plain"], using="other")["plain"].value == 3
    assert not queries.captured_queries
    assert readings_of(["plain"])["plain"].value == 0
