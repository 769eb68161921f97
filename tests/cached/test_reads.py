"""What is read of cached counters: exact, from Redis alone, and without Redis."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
import redis
from django.db import connection, transaction

from django_counters import clock
from django_counters.cached.flush import flush
from django_counters.cached.sources import slots_of
from django_counters.errors import (
    InvalidPeriod,
    UnsupportedConsistency,
)
from django_counters.models import Counter, CounterShard
from django_counters.redis.keys import slot_of
from django_counters.testing import override_counters

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("cached")]
DEAD = "redis://127.0.0.1:1/0"
SECOND = timedelta(seconds=1)


def cached_value(key: str, **options: Any) -> int:
    return Counter.objects.value(key, consistency="cached", **options)


def test_a_cached_value_is_as_old_as_is_said() -> None:
    assert cached_value("views:a") == 0
    CounterShard.objects.increment("views:a", 5)
    assert cached_value("views:a", max_age=3600) == 0
    reading = Counter.objects.read("views:a", consistency="cached", max_age=3600)
    assert (reading.value, reading.consistency) == (0, "cached")
    assert reading.as_of <= clock.now()
    assert cached_value("views:a", max_age=0) == 5
    assert cached_value("views:a", max_age=3600) == 5


def test_the_reading_says_when_its_total_was_asked_for() -> None:
    before = clock.now()
    Counter.objects.read("views:a", consistency="cached")
    after = clock.now()
    while clock.now() - after < SECOND / 4:
        pass
    reading = Counter.objects.read("views:a", consistency="cached", max_age=3600)
    # Redis has a clock of its own, of the same machine here, in milliseconds.
    slack = timedelta(milliseconds=100)
    assert before - slack <= reading.as_of <= after + slack


def test_the_namespace_says_how_old_a_total_may_be() -> None:
    def read() -> int:
        return Counter.objects.read("views:a", consistency="cached").value

    patient = {"STRATEGY": "cached", "OPTIONS": {"timeout": 10, "max_age": 3600}}
    hasty = {"STRATEGY": "cached", "OPTIONS": {"timeout": 10, "max_age": 0.001}}
    with override_counters(views=patient):
        assert read() == cached_value("views:a") == 0
        CounterShard.objects.increment("views:a", 5)
        assert read() == cached_value("views:a") == 0
    with override_counters(views=hasty):
        deadline = clock.now() + 20 * SECOND
        while read() == 0:
            assert clock.now() < deadline
        assert cached_value("views:a") == 5


def test_what_is_no_age_is_refused() -> None:
    ages: list[Any] = [-1, -0.001, float("nan"), float("inf"), 1e300, "5", True, SECOND]
    for age in ages:
        with pytest.raises(InvalidPeriod):
            cached_value("views:a", max_age=age)
        with pytest.raises(InvalidPeriod):
            Counter.objects.read("views:a", consistency="cached", max_age=age)


def test_another_consistency_is_refused() -> None:
    others: list[Any] = ["rolled_up", "landed", "", "Exact", None]
    for consistency in others:
        with pytest.raises(UnsupportedConsistency):
            Counter.objects.read("views:a", consistency=consistency)
        with pytest.raises(UnsupportedConsistency):
            Counter.objects.values_of(["views:a"], consistency=consistency)


def test_what_only_a_transaction_sees_is_not_for_others() -> None:
    with pytest.raises(KeyError), transaction.atomic():
        CounterShard.objects.increment("views:a", 5)
        assert cached_value("views:a") == 5
        assert Counter.objects.increment("views:a", immediately=True) == 6
        raise KeyError
    assert cached_value("views:a", max_age=3600) == 1
    assert Counter.objects.increment("views:a") == 2


@pytest.mark.many_writers
@pytest.mark.usefixtures("old_snapshot")
def test_what_an_old_snapshot_sees_is_not_for_others(elsewhere: Callable[..., Any]) -> None:
    cached_value("views:a")
    assert elsewhere(lambda: cached_value("views:a", max_age=3600)) == 7


@pytest.fixture
def old_snapshot(cached: str, elsewhere: Callable[..., Any]) -> Iterator[None]:
    """A transaction that began before 7 were counted, and landed."""
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            cursor.execute("SELECT COUNT(*) FROM django_counters_counter")
        elsewhere(lambda: Counter.objects.increment("views:a", 7))
        elsewhere(flush)
        base = slots_of("default", cached).keys(slot_of("views:a"))[1]
        with redis.Redis.from_url(os.environ["REDIS_URL"]) as client:
            client.delete(base)
        yield
