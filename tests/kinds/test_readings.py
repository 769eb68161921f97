"""Exact values of many counters, and what they are made of."""

from __future__ import annotations

import os
from typing import Any

import pytest
from django.db import connection, connections
from django.test.utils import CaptureQueriesContext

from django_counters.kinds.readings import readings_of
from django_counters.models import Counter, CounterShard
from django_counters.stores.redis.pending import RedisPending
from django_counters.testing import override_counters
from django_counters.types import Reading
from django_counters.upkeep.flush import flush
from tests.strategies.test_cached_round_trips import watched

pytestmark = pytest.mark.django_db(transaction=True)
SHARDED = {"STRATEGY": "sharded", "OPTIONS": {"shards": 4}}
LEDGER = {"STRATEGY": "ledger"}
DEAD: dict[str, Any] = {"STRATEGY": "cached", "CACHE": "redis://127.0.0.1:1/0"}
KEYS = ["plain", "likes:a", "orders:eu", "views:a", "views:b", "never"]


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


def test_they_are_what_each_counter_says_alone(counted: str) -> None:
    readings = readings_of(KEYS)
    assert list(readings) == KEYS
    assert {key: parts(reading) for key, reading in readings.items()} == {
        "plain": (5, 5, 0, "exact"),
        "likes:a": (7, 0, 7, "exact"),
        "orders:eu": (17, 0, 17, "exact"),
        "views:a": (34, 30, 4, "exact"),
        "views:b": (1, 0, 1, "exact"),
        "never": (0, 0, 0, "exact"),
    }
    for key in KEYS:
        assert parts(readings[key]) == parts(Counter.objects.read(key)), key
    assert {key: reading.value for key, reading in readings.items()} == Counter.objects.values_of(
        KEYS
    )


def test_they_are_one_query_and_one_round_trip(counted: str) -> None:
    # The server learns the script once.
    readings_of(KEYS)
    with watched(counted) as told, CaptureQueriesContext(connection) as queries:
        readings_of([*KEYS, *(f"views:{number}" for number in range(500))])
    assert len(queries) == 1
    assert told == ["look"]


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


def test_without_redis_it_is_what_has_landed(counted: str) -> None:
    with override_counters(
        views=DEAD, pages={"STRATEGY": "cached", "CACHE": os.environ["REDIS_URL"]}
    ):
        readings = readings_of(["views:a", "plain", "pages:x"])
    assert parts(readings["views:a"]) == (30, 30, 0, "landed")
    assert parts(readings["plain"]) == (5, 5, 0, "exact")
    assert parts(readings["pages:x"]) == (0, 0, 0, "exact")


def test_what_is_collected_is_part_of_them() -> None:
    with Counter.objects.collect():
        Counter.objects.increment("plain", 3)
        assert parts(readings_of(["plain"])["plain"]) == (3, 0, 3, "exact")


def test_more_than_a_page_of_keys_are_all_there() -> None:
    CounterShard._base_manager.create(key="k4500", shard=1, value=2)
    with CaptureQueriesContext(connection) as queries:
        readings = readings_of([f"k{number}" for number in range(4501)])
    assert (len(readings), readings["k4500"].value, len(queries)) == (4501, 2, 3)


def test_a_row_that_no_key_could_have_made_is_read_too() -> None:
    Counter.objects.create(key="a key\nof lines", value=3)
    assert parts(readings_of(["a key\nof lines"])["a key\nof lines"]) == (3, 3, 0, "exact")


@pytest.mark.django_db(transaction=True, databases=["default", "other"])
def test_another_database() -> None:
    Counter.objects.increment("plain", 3, using="other")
    with CaptureQueriesContext(connections["default"]) as queries:
        assert readings_of(["plain"], using="other")["plain"].value == 3
    assert not queries.captured_queries
    assert readings_of(["plain"])["plain"].value == 0
