"""The promises of named exact counters, one caller at a time, and which database counts."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta
from threading import Thread
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.db import connection
from django.test.utils import override_settings

from django_counters import clock
from django_counters.errors import (
    InsufficientCount,
    InvalidDelta,
    Shortfall,
)
from django_counters.models import Counter
from django_counters.testing import apart, assert_counts

pytestmark = pytest.mark.django_db


def test_the_time_of_the_last_change_is_kept() -> None:
    before = clock.now()
    Counter.objects.increment("a")
    created = Counter.objects.get(key="a").updated_at
    Counter.objects.increment_many({"a": 1, "b": 1})
    changed = Counter.objects.get(key="a").updated_at
    # The database's own clock; SQLite's has milliseconds.
    assert before - timedelta(milliseconds=1) <= created <= changed <= clock.now()


class TestCart:
    @pytest.fixture(autouse=True)
    def _bounds(self, override_counters: Callable[..., None]) -> None:
        override_counters(stock={"FLOOR": 0}, quota={"CEILING": 10})

    def test_all_or_nothing_and_every_shortfall_is_listed(self) -> None:
        Counter.objects.increment_many({"stock:a": 5, "stock:b": 1, "stock:c": 9})
        with pytest.raises(InsufficientCount) as caught:
            Counter.objects.decrement_many({"stock:a": 6, "stock:b": 1, "stock:new": 2})
        assert set(caught.value.shortfalls) == {
            Shortfall("stock:a", 6, 5, 0),
            Shortfall("stock:new", 2, 0, 0),
        }
        assert_counts({"stock:a": 5, "stock:b": 1, "stock:new": 0})
        assert not Counter.objects.filter(key="stock:new").exists()


@pytest.mark.parametrize("bound", [True, 1.0, "1", 2**63])
def test_no_call_takes_a_bad_bound(bound: Any) -> None:
    with pytest.raises(InvalidDelta):
        Counter.objects.increment("a", ceiling=bound)
    with pytest.raises(InvalidDelta):
        Counter.objects.decrement("a", floor=bound)


def test_a_saved_instance_does_not_overwrite_newer_counts() -> None:
    Counter.objects.increment("a")
    stale = Counter.objects.get(key="a")
    Counter.objects.increment("a", 10)
    stale.save()
    stale.save(update_fields=["value"])
    Counter.objects.bulk_update([stale], ["value"])
    assert_counts({"a": 11})


@pytest.mark.many_writers
@pytest.mark.django_db(transaction=True)
def test_nobody_is_refused_while_there_is_enough() -> None:
    """A delivery that arrives between the refusal and its reason is sold, not refused."""
    Counter.objects.increment("stock")

    def deliver() -> None:
        try:
            Counter.objects.increment("stock", 10)
        finally:
            connection.close()

    def after_the_first_update(execute: Any, sql: str, *rest: Any) -> Any:
        result = execute(sql, *rest)
        if ("django_counters_add" in sql or "UPDATE" in sql) and not threads:
            threads.append(Thread(target=deliver))
            threads[0].start()
            threads[0].join()
        return result

    threads: list[Thread] = []
    with connection.execute_wrapper(after_the_first_update):
        assert Counter.objects.decrement("stock", 5, floor=0) == 6


@pytest.mark.django_db(transaction=True)
def test_bounds_and_querysets_have_async_twins() -> None:
    async def calls() -> None:
        objects = Counter.objects
        await objects.aincrement("a", 4)
        assert await objects.filter(key="a").aincrement(2) == 1
        assert await objects.filter(key="a").adecrement() == 1
        with pytest.raises(InsufficientCount):
            await objects.adecrement("a", 6, floor=0)

    async_to_sync(calls)()
    assert_counts({"a": 5})


class Elsewhere:
    """A router that sends everything to the other database."""

    def db_for_write(self, model: Any, **hints: Any) -> str:
        return "other"

    db_for_read = db_for_write


@pytest.mark.django_db(databases=["default", "other"])
@override_settings(DATABASE_ROUTERS=[Elsewhere()])
def test_without_using_the_router_decides() -> None:
    Counter.objects.increment("a")
    assert Counter.objects.value("a") == 1
    assert Counter.objects.value("a", using="default") == 0


class OfThread(threading.local):
    """A router that keeps its choice in the thread that asks."""

    database = "default"

    def db_for_write(self, model: Any, **hints: Any) -> str:
        return self.database

    db_for_read = db_for_write


@pytest.mark.django_db(transaction=True, databases=["default", "other"])
@pytest.mark.parametrize("options", [{}, {"BUFFER": {"seconds": 3600}}], ids=["exact", "buffer"])
def test_the_router_decides_in_the_thread_that_waits(options: dict[str, Any]) -> None:
    router, objects = OfThread(), Counter.objects
    router.database = "other"
    with apart(), override_settings(DATABASE_ROUTERS=[router], COUNTERS={"a": options}):
        async_to_sync(objects.aincrement)("a:b", 5)
        async_to_sync(objects.adecrement)("a:b")
        async_to_sync(objects.aincrement_many)({"a:b": 20})
        async_to_sync(objects.adecrement_many)({"a:b": 10})
        assert async_to_sync(objects.avalue)("a:b") == 14
        assert async_to_sync(objects.avalues_of)(["a:b"]) == {"a:b": 14}
        assert async_to_sync(objects.aread)("a:b").value == 14
        assert objects.value("a:b", using="default") == 0


class ReadsElsewhere:
    """A router with a replica."""

    def db_for_write(self, model: Any, **hints: Any) -> str:
        return "default"

    def db_for_read(self, model: Any, **hints: Any) -> str:
        return "other"


@pytest.mark.django_db(databases=["default", "other"])
@override_settings(DATABASE_ROUTERS=[ReadsElsewhere()])
def test_every_change_goes_to_the_database_for_writing() -> None:
    Counter.objects.increment("a")
    assert Counter.objects.increment_many({"a": 1}) == {"a": 2}
    assert Counter.objects.filter(key="a").increment(5) == 1
    assert Counter.objects.filter(key="a").decrement(1) == 1
    assert Counter.objects.value("a") == 0
    assert Counter.objects.value("a", using="default") == 6
