"""The connections of event loops: what is executed, how often, and what is known about it."""

from __future__ import annotations

import asyncio
import gc
import os
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from django_counters.errors import CounterUnavailable
from django_counters.redis.aclient import POOL, AsyncClient, aclient_of
from django_counters.redis.addresses import address_of
from django_counters.redis.client import client_of
from tests.redis.counting import (
    add,
    connected,
    eventually,
    fresh,
    named,
    stands_at,
)
from tests.redis.proxy import Proxy

ALWAYS = 50
SHORT = 0.2


def afresh(url: str | None = None, **options: Any) -> AsyncClient:
    return AsyncClient(fresh(url, **options))


def sync(work: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(asyncio.wait_for(work, 30))


def test_one_client_of_an_address() -> None:
    address = address_of(os.environ["REDIS_URL"], {"timeout": 7})
    same = address_of(os.environ["REDIS_URL"], {"timeout": 7})
    assert aclient_of(address) is aclient_of(same)
    assert client_of(address) is client_of(same)
    assert aclient_of(address)._route is client_of(same).route
    assert client_of(address_of(os.environ["REDIS_URL"])) is not client_of(address)


@pytest.mark.rare
def test_a_task_that_is_cancelled_takes_its_connection_with_it(key: str, proxy: Proxy) -> None:
    async def work() -> None:
        client = afresh(proxy.url)
        await client.run(add(key, 100))
        proxy.lose("hold")
        task = asyncio.create_task(client.run(add(key)))
        while stands_at(key) < 101:
            await asyncio.sleep(0.005)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        proxy.release.set()
        # The answer of the cancelled one would have been 101.
        assert await client.run(add(key)) == 102
        assert proxy.connections == 2

    sync(work())


@pytest.mark.rare
def test_cancelled_at_any_moment_no_answer_goes_to_somebody_else(key: str) -> None:
    async def work() -> None:
        client = afresh()
        await client.run(add(key))
        for turn in range(300):
            task = asyncio.create_task(client.run(add(key)))
            for _ in range(turn % 12):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait([task])
            assert await client.call("ECHO", turn) == str(turn)

    sync(work())
    assert 1 <= stands_at(key) <= 301


@pytest.mark.rare
def test_many_tasks_share_few_connections(key: str) -> None:
    async def work() -> None:
        client = afresh(named(os.environ["REDIS_URL"], key))
        replies = await asyncio.gather(*(client.run(add(key)) for _ in range(300)))
        assert sorted(replies) == list(range(1, 301))
        assert 1 <= len(connected(key)) <= POOL
        await client.close()
        assert eventually(lambda: not connected(key))
        assert await client.run(add(key)) == 301

    sync(work())
    assert eventually(lambda: not connected(key))


@pytest.mark.rare
def test_event_loops_have_connections_of_their_own_which_end_with_them(key: str) -> None:
    client = afresh(named(os.environ["REDIS_URL"], key))

    async def work() -> list[int]:
        replies = await asyncio.gather(*(client.run(add(key)) for _ in range(100)))
        assert connected(key)
        return replies

    first = sync(work())
    assert eventually(lambda: not connected(key))
    with ThreadPoolExecutor(2) as pool:
        others = list(pool.map(lambda _: sync(work()), range(2)))
    assert sorted(first + others[0] + others[1]) == list(range(1, 301))
    assert eventually(lambda: not connected(key))
    assert not client._pools


@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_loop_that_ends_without_saying_so_leaves_nothing_behind(key: str) -> None:
    client = afresh(named(os.environ["REDIS_URL"], key))
    loop = asyncio.new_event_loop()
    loop.run_until_complete(client.run(add(key)))
    loop.close()
    assert sync(client.run(add(key))) == 2
    del loop
    gc.collect()
    assert eventually(lambda: not connected(key))
    assert not client._pools


def test_a_connection_that_was_closed_meanwhile_is_made_again_before_anything_is_sent(
    key: str, proxy: Proxy
) -> None:
    async def work() -> None:
        client = afresh(proxy.url)
        await client.run(add(key))
        # Closed while the loop does not look, and while it does.
        for turn in range(2):
            (pool,) = client._pools.values()
            ((wire,),) = pool._idle.values()
            proxy.cut()
            if turn:
                await asyncio.sleep(0.05)
            assert eventually(wire.is_stale)
            assert await client.run(add(key)) == turn + 2

    sync(work())


def test_nobody_listens_and_then_nobody_tries(key: str, proxy: Proxy) -> None:
    async def work() -> None:
        client = afresh(proxy.url, timeout=SHORT)
        proxy.lose("swallow", times=ALWAYS, marker=b"CLIENT")
        outcomes = await asyncio.gather(
            *(client.run(add(key)) for _ in range(100)), return_exceptions=True
        )
        assert {type(outcome) for outcome in outcomes} == {CounterUnavailable}
        # The first failures let others in, the third one does not.
        assert proxy.connections <= POOL + 2
        proxy.stop()
        with pytest.raises(CounterUnavailable, match="left alone"):
            await client.run(add(key))

    sync(work())
    assert stands_at(key) == 0
