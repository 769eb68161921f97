"""Cached counters in async code: from the event loop itself, as exact as from a thread."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from asgiref.sync import async_to_sync, sync_to_async
from django.db import connections, transaction

from django_counters import clock
from django_counters.cached.flush import flush
from django_counters.errors import (
    CounterUnavailable,
    InvalidDelta,
    InvalidKey,
    TokenConflict,
    TokenExpired,
    UnsupportedBounds,
    UnsupportedConsistency,
    UnsupportedOption,
    UnsupportedToken,
)
from django_counters.models import Counter
from django_counters.testing import override_counters
from django_counters.tokens import mint
from django_counters.types import Result

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("cached")]
DEAD: dict[str, Any] = {"STRATEGY": "cached", "CACHE": "redis://127.0.0.1:1/0"}


def sync(work: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
    """Run it on an event loop of its own, with no thread of synchronous code around it."""

    async def limited() -> Any:
        try:
            return await asyncio.wait_for(work(), 30)
        finally:
            await sync_to_async(connections.close_all)()

    return asyncio.run(limited())


def warm(*keys: str) -> None:
    """Let their totals be known in Redis."""
    flush()
    Counter.objects.values_of(keys, consistency="cached")


def test_no_thread_is_needed() -> None:
    """They go on while the one thread of synchronous code is busy."""
    warm("views:a", "views:b")
    Counter.objects.increment("views:a", token=mint(clock.utc()))
    begun, release = threading.Event(), threading.Event()

    def busy() -> bool:
        begun.set()
        return release.wait(60)

    async def work() -> None:
        thread = asyncio.create_task(sync_to_async(busy)())
        try:
            while not begun.is_set():
                await asyncio.sleep(0.001)
            assert await Counter.objects.aincrement("views:a") == 2
            assert await Counter.objects.adecrement("views:a", 4) == -2
            token = mint(clock.utc())
            assert await Counter.objects.aincrement("views:a", token=token) == -1
            assert await Counter.objects.aincrement_many({"views:a": 1, "views:b": 1}) == {
                "views:a": 0,
                "views:b": 1,
            }
            assert await Counter.objects.adecrement_many({"views:b": 3}) == {"views:b": -2}
            found = await Counter.objects.avalues_of(
                ["views:a", "views:b"], consistency="cached", max_age=600
            )
            assert found == {"views:a": 0, "views:b": -2}
            reading = await Counter.objects.aread("views:b", consistency="cached", max_age=600)
            assert reading.value == -2
            assert not thread.done()
        finally:
            release.set()
            assert await thread

    sync(work)


@pytest.mark.parametrize("many", [False, True])
def test_within_a_transaction_of_synchronous_code_it_is_part_of_it(many: bool) -> None:
    async def work() -> None:
        if many:
            await Counter.objects.aincrement_many({"views:a": 1})
        else:
            await Counter.objects.aincrement("views:a")

    with pytest.raises(KeyError), transaction.atomic():
        async_to_sync(work)()
        raise KeyError
    assert Counter.objects.value("views:a") == 0
    with transaction.atomic():
        async_to_sync(work)()
        assert Counter.objects.value("views:a") == 0
    assert Counter.objects.value("views:a") == 1


def test_immediately_within_a_transaction_of_synchronous_code() -> None:
    async def work() -> Result:
        return await Counter.objects.aincrement("views:a", immediately=True)

    with pytest.raises(KeyError), transaction.atomic():
        assert async_to_sync(work)() == 1
        raise KeyError
    assert Counter.objects.value("views:a") == 1
    assert sync(work) == 2


def test_a_transaction_in_a_thread_of_the_loop_counts_by_itself() -> None:
    def in_a_transaction() -> None:
        with transaction.atomic():
            Counter.objects.increment("views:a", 10)
            async_to_sync(Counter.objects.aincrement)("views:a", 100)
            raise KeyError

    async def work() -> None:
        with pytest.raises(KeyError):
            await sync_to_async(in_a_transaction)()
        await Counter.objects.aincrement("views:a")

    sync(work)
    assert Counter.objects.value("views:a") == 1


def test_what_is_collected_is_counted_at_the_end() -> None:
    async def work() -> None:
        async with Counter.objects.acollect():
            for _ in range(3):
                await Counter.objects.aincrement("views:a")
            await Counter.objects.aincrement_many({"views:a": 1, "plain": 1})
            assert await Counter.objects.avalue("views:a") == 4
            reading = await Counter.objects.aread("views:a")
            assert (reading.value, reading.pending) == (4, 4)
        assert await Counter.objects.avalue("views:a") == 4
        with pytest.raises(KeyError):
            async with Counter.objects.acollect():
                await Counter.objects.aincrement("views:a", 10)
                raise KeyError

    sync(work)
    assert Counter.objects.values_of(["views:a", "plain"]) == {"views:a": 4, "plain": 1}


def test_cached_and_other_counters_in_one_call() -> None:
    async def work() -> None:
        many = {"views:a": 1, "likes:a": 2, "plain": 3}
        await Counter.objects.aincrement_many(many)
        assert await Counter.objects.avalues_of([*many, "none"]) == {**many, "none": 0}
        assert await Counter.objects.aincrement_many({}) == {}
        assert await Counter.objects.avalues_of([]) == {}

    likes = {"STRATEGY": "cached", "ON_REDIS_DOWN": "raise", "OPTIONS": {"timeout": 10}}
    with override_counters(likes=likes):
        sync(work)


def test_tokens() -> None:
    token = mint(clock.utc())

    async def work() -> None:
        first: Any = await Counter.objects.aincrement("views:a", 5, token=token)
        again: Any = await Counter.objects.aincrement("views:a", 5, token=token)
        assert (first, first.replayed, again, again.replayed) == (5, False, 5, True)
        with pytest.raises(TokenConflict):
            await Counter.objects.adecrement("views:a", 5, token=token)
        with pytest.raises(TokenExpired):
            await Counter.objects.aincrement("views:a", token=mint(clock.utc().replace(year=2001)))
        with pytest.raises(UnsupportedToken):
            await Counter.objects.aincrement("views:a", token="text")
        with pytest.raises(UnsupportedToken):
            await Counter.objects.aincrement_many({"views:a": 1}, token=token)
        assert await Counter.objects.avalue("views:a") == 5
        reading = await Counter.objects.aread("views:a")
        assert (reading.value, reading.pending, reading.consistency) == (5, 5, "exact")

    sync(work)
    assert Counter.objects.value("views:a") == 5


def test_a_token_that_was_used_before_the_counter_was_cached() -> None:
    token = mint(clock.utc())
    with override_counters(views={}):
        Counter.objects.increment("views:a", 5, token=token)

    async def work() -> Any:
        return await Counter.objects.aincrement("views:a", 5, token=token)

    with override_counters(views=DEAD):
        again = sync(work)
        assert (again, again.replayed) == (5, True)
    assert Counter.objects.value("views:a") == 5


def test_what_is_refused() -> None:
    async def work() -> None:
        objects = Counter.objects
        bad: list[Any] = [7, None, "", "views:a b", "views:" + "x" * 200, ["views:a"]]
        for key in bad:
            with pytest.raises(InvalidKey):
                await objects.aincrement(key)
            with pytest.raises(InvalidKey):
                await objects.avalue(key)
        for by in (1.5, True, 2**63):
            with pytest.raises(InvalidDelta):
                await objects.aincrement("views:a", by)  # type: ignore[arg-type]
            with pytest.raises(InvalidDelta):
                await objects.aincrement_many({"views:b": 1, "views:a": by})  # type: ignore[dict-item]
        with pytest.raises(InvalidDelta):
            await objects.aincrement_many(["views:a"])  # type: ignore[arg-type]
        with pytest.raises(InvalidKey):
            await objects.avalues_of("views:a")
        with pytest.raises(UnsupportedBounds):
            await objects.adecrement("views:a", floor=0)
        with pytest.raises(UnsupportedOption):
            await objects.aincrement("plain", immediately=True)
        with pytest.raises(UnsupportedConsistency):
            await objects.aread("views:a", consistency="rolled_up")
        with pytest.raises(UnsupportedConsistency):
            await objects.avalues_of(["views:a"], consistency="landed")

    sync(work)
    assert Counter.objects.values_of(["views:a", "views:b"]) == {"views:a": 0, "views:b": 0}


def test_without_redis() -> None:
    async def work() -> None:
        sent: Any = await Counter.objects.aincrement("views:a", 5)
        assert "Redis is away" in sent.reason
        await Counter.objects.aincrement_many({"views:a": 1, "views:b": 2})
        reading = await Counter.objects.aread("views:a", consistency="cached")
        assert (reading.value, reading.consistency) == (6, "landed")
        found = await Counter.objects.avalues_of(["views:a", "views:b"], consistency="cached")
        assert found == {"views:a": 6, "views:b": 2}
        with pytest.raises(CounterUnavailable):
            await Counter.objects.avalue("views:a")

    async def refused() -> None:
        with pytest.raises(CounterUnavailable):
            await Counter.objects.aincrement("views:a")
        with pytest.raises(CounterUnavailable):
            await Counter.objects.aincrement_many({"views:a": 1})

    with override_counters(views=DEAD):
        sync(work)
    with override_counters(views={**DEAD, "ON_REDIS_DOWN": "raise"}):
        sync(refused)
    assert Counter.objects.values_of(["views:a", "views:b"]) == {"views:a": 6, "views:b": 2}
