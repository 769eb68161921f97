"""A Redis Cluster: which server is asked, and what is done when the keys move."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from redis.crc import key_slot

from django_counters.errors import CounterUnavailable, OutcomeUnknown
from django_counters.redis.aclient import AsyncClient
from django_counters.redis.client import Client, ScriptRun, ServerRefused
from django_counters.redis.commands import Script
from example_project.bootstrap.postgres import free_port
from tests.redis.counting import add, fresh
from tests.redis.servers import Server, joined, needs_redis, running

pytestmark = needs_redis
CLUSTERED = (
    *("--cluster-enabled", "yes", "--cluster-require-full-coverage", "no"),
    *("--cluster-node-timeout", 2000, "--save", ""),
)
BOTH = Script("return redis.call('INCRBY', KEYS[1], ARGV[1]) + redis.call('INCRBY', KEYS[2], 0)")


@contextmanager
def clustered(folder: Path) -> Iterator[list[Server]]:
    arguments = [(*CLUSTERED, "--cluster-port", free_port) for _ in range(3)]
    with running(folder, *arguments) as servers:
        joined(servers)
        yield servers


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Server]]:
    """That of all tests that stop no server; each has keys of its own."""
    with clustered(tmp_path_factory.mktemp("cluster")) as servers:
        yield servers


def clients(cluster: list[Server], **options: Any) -> tuple[Client, AsyncClient]:
    hosts = ",".join(f"127.0.0.1:{server.port}" for server in cluster)
    client = fresh(f"redis+cluster://{hosts}", **options)
    return client, AsyncClient(client)


def of_each(cluster: list[Server], test: str) -> list[str]:
    """Keys of a test, the first of them on the first server and so on."""
    keys = (f"{{{test}{number}}}" for number in range(1000))
    places: dict[int, str] = {}
    for key in keys:
        places.setdefault(key_slot(key.encode()) * len(cluster) // 16384, key)
    return [places[number] for number in range(len(cluster))]


def count(cluster: list[Server], key: str) -> list[int]:
    """What each server has executed for a key; it is asked itself, wherever the slot is."""
    return [int(server("EVAL", f"return #redis.call('KEYS', '{key}')", 0)) for server in cluster]


def test_keys_are_where_the_cluster_has_them(cluster: list[Server]) -> None:
    client, aclient = clients(cluster)
    keys = of_each(cluster, "where")
    assert [client.run(add(key)) for key in keys] == [1, 1, 1]
    assert client.run_many([add(key, by) for by in (1, 2) for key in keys]) == [2, 2, 2, 4, 4, 4]
    assert [client.call("GET", key, key=key) for key in keys] == ["4", "4", "4"]
    assert client.call("INFO", "server").startswith("# Server")

    async def work() -> None:
        assert [await aclient.run(add(key)) for key in keys] == [5, 5, 5]
        assert await aclient.run_many([add(key) for key in keys]) == [6, 6, 6]
        assert await aclient.call("GET", keys[2], key=keys[2]) == "6"

    asyncio.run(work())


def move(slot: int, source: Server, target: Server, others: list[Server]) -> None:
    """Move an empty slot."""
    name = target("CLUSTER", "MYID")
    for server in (target, source, *others):
        server("CLUSTER", "SETSLOT", slot, "NODE", name)


def test_a_slot_that_moved(cluster: list[Server]) -> None:
    client, aclient = clients(cluster)
    keys = of_each(cluster, "moved")
    assert client.run(add(keys[1])) == 1
    move(key_slot(keys[0].encode()), cluster[0], cluster[2], [cluster[1]])
    assert client.run_many([add(key) for key in keys]) == [1, 2, 1]
    redirected = cluster[0].direct.info("errorstats")["errorstat_MOVED"]
    assert client.run(add(keys[0])) == 2
    assert cluster[0].direct.info("errorstats")["errorstat_MOVED"] == redirected
    assert count(cluster, keys[0]) == [0, 0, 1]
    cluster[2]("DEL", keys[0])
    move(key_slot(keys[0].encode()), cluster[2], cluster[1], [cluster[0]])
    assert asyncio.run(aclient.run(add(keys[0]))) == 1
    assert count(cluster, keys[0]) == [0, 1, 0]
    assert client.run(add(keys[0])) == 2


def test_a_slot_that_is_moving(cluster: list[Server]) -> None:
    client, aclient = clients(cluster)
    key = of_each(cluster, "moving")[0]
    slot = key_slot(key.encode())
    source, target, other = cluster
    assert client.run(add(key)) == 1
    target("CLUSTER", "SETSLOT", slot, "IMPORTING", source("CLUSTER", "MYID"))
    source("CLUSTER", "SETSLOT", slot, "MIGRATING", target("CLUSTER", "MYID"))
    assert client.run(add(key)) == 2
    gone = f"{key}:gone"
    # One that is not here any more: the other server is asked for it, with ASKING.
    assert client.run(add(gone)) == 1
    assert asyncio.run(aclient.run(add(gone))) == 2
    assert client.run_many([add(gone), add(key)]) == [3, 3]
    assert count(cluster, gone) == [0, 1, 0]
    # Keys on both servers: TRYAGAIN, and nothing is executed.
    both = ScriptRun(BOTH, (key, gone), (1,))
    with pytest.raises(CounterUnavailable, match="TRYAGAIN"):
        client.run(both)
    (refused,) = client.run_many([both])
    assert isinstance(refused, ServerRefused)
    assert refused.code == "CLUSTERDOWN"
    assert client.call("GET", key, key=key) == "3"
    source("MIGRATE", "127.0.0.1", target.port, "", 0, 5000, "KEYS", key)
    move(slot, source, target, [other])
    assert client.run(both) == 4 + 3


@pytest.fixture
def shrinking(tmp_path: Path) -> Iterator[list[Server]]:
    """A cluster of the test's own."""
    with clustered(tmp_path) as servers:
        yield servers


def test_a_server_that_is_gone(shrinking: list[Server]) -> None:
    cluster = shrinking
    client, aclient = clients(cluster, timeout=2)
    keys = of_each(cluster, "gone")
    client.run_many([add(key) for key in keys])
    cluster[0].stop()
    with pytest.raises((CounterUnavailable, OutcomeUnknown)):
        client.run(add(keys[0]))
    for _ in range(10):
        assert client.run(add(keys[1]))
    replies = client.run_many([add(key) for key in keys])
    assert replies[1:] == [12, 2]
    assert isinstance(replies[0], ServerRefused)
    assert replies[0].code == "CLUSTERDOWN"

    async def work() -> None:
        replies = await aclient.run_many([add(key) for key in keys])
        assert isinstance(replies[0], ServerRefused)
        assert replies[1:] == [13, 3]

    asyncio.run(work())
    # A client that starts now finds the way without it.
    assert clients(cluster, timeout=2)[0].run(add(keys[2])) == 4


def test_a_server_with_no_cluster_is_none(tmp_path: Any) -> None:
    with running(tmp_path, ("--save", "")) as servers:
        client, _ = clients(servers)
        with pytest.raises(CounterUnavailable, match="cluster support disabled"):
            client.run(add("a"))


@pytest.mark.rare
def test_threads_that_start_together_find_the_way(cluster: list[Server]) -> None:
    client, _ = clients(cluster)
    keys = of_each(cluster, "threads")
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: client.run(add(keys[number % 3])), range(300)))
    assert [client.call("GET", key, key=key) for key in keys] == ["100"] * 3
