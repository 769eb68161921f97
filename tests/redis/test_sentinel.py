"""Servers that Sentinels watch: the master is asked, also when it is another one."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from django_counters.errors import CounterUnavailable
from django_counters.redis.aclient import AsyncClient
from django_counters.redis.client import Client, ServerRefused
from tests.redis.counting import add, eventually, fresh
from tests.redis.servers import Server, needs_redis, running

pytestmark = needs_redis


class Watched:
    """Two servers, and a Sentinel that says which one is the master."""

    def __init__(self, servers: list[Server]) -> None:
        self.old, self.new, self.sentinel = servers
        self.sentinel("SENTINEL", "MONITOR", "main", "127.0.0.1", self.old.port, 1)
        assert eventually(lambda: self.is_seen(self.old))

    def is_seen(self, server: Server) -> bool:
        """Whether the Sentinel has it for the master, up and running."""
        words = self.sentinel("SENTINEL", "MASTER", "main")
        told = dict(zip(words[::2], words[1::2], strict=True))
        return bool(told["port"] == str(server.port) and told["flags"] == "master")

    def change(self) -> None:
        """The other server is the master now, with what the first one had."""
        self.new("REPLICAOF", "127.0.0.1", self.old.port)
        assert eventually(self._has_it_all)
        self.new("REPLICAOF", "NO", "ONE")
        self.old("REPLICAOF", "127.0.0.1", self.new.port)
        self.sentinel("SENTINEL", "REMOVE", "main")
        self.sentinel("SENTINEL", "MONITOR", "main", "127.0.0.1", self.new.port, 1)
        assert eventually(lambda: self.is_seen(self.new))

    def _has_it_all(self) -> bool:
        return bool(self.new.direct.info("replication")["master_link_status"] == "up")


@pytest.fixture
def watched(tmp_path: Any) -> Iterator[Watched]:
    file = tmp_path / "sentinel.conf"
    file.write_text("")
    one = ("--save", "", "--repl-diskless-sync-delay", 0)
    with running(tmp_path, one, one, (file, "--sentinel")) as servers:
        yield Watched(servers)


def clients(watched: Watched) -> tuple[Client, AsyncClient]:
    client = fresh(f"redis+sentinel://127.0.0.1:{watched.sentinel.port}/main/3", timeout=2)
    return client, AsyncClient(client)


def test_the_master_is_asked_and_another_one_found_also_when_it_is_gone(watched: Watched) -> None:
    # They share nothing, so that each finds it out for itself; one does while it is connected.
    (client, _), (_, aclient), (late, alate) = (clients(watched) for _ in range(3))

    async def work() -> None:
        assert await aclient.run(add("a")) == 1
        assert [client.run(add("a")), late.run(add("a"))] == [2, 3]
        watched.change()
        (refused,) = await aclient.run_many([add("a")])
        assert isinstance(refused, ServerRefused)
        assert refused.code == "READONLY"
        assert await aclient.run(add("a")) == 4

    asyncio.run(work())
    with pytest.raises(ServerRefused, match="READONLY"):
        client.run(add("a"))
    assert client.run(add("a")) == 5
    assert [int(wire.port) for wire in client._wires.idle] == [watched.new.port]
    watched.new("SELECT", 3)
    assert watched.new("GET", "a") == "5"
    watched.old.stop()
    with pytest.raises(CounterUnavailable):
        late.run(add("a"))
    assert late.run(add("a")) == 6
    assert asyncio.run(alate.run(add("a"))) == 7


def test_no_sentinel_answers() -> None:
    client = fresh("redis+sentinel://127.0.0.1:1/main/3", timeout=2)
    aclient = AsyncClient(client)
    for _ in range(2):
        with pytest.raises(CounterUnavailable, match="No master found"):
            client.run(add("a"))
    with pytest.raises(CounterUnavailable, match="No master found"):
        asyncio.run(aclient.run(add("a")))
    with pytest.raises(CounterUnavailable, match="left alone"):
        client.run(add("a"))
