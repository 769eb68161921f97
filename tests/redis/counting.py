"""What the tests of connections count with, and how they look at the server."""

from __future__ import annotations

import asyncio
import os
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import redis

from django_counters.redis.aclient import AsyncClient
from django_counters.redis.addresses import address_of
from django_counters.redis.client import Client, ScriptRun
from django_counters.redis.commands import Script

ADD = Script("return redis.call('INCRBY', KEYS[1], ARGV[1])")
FAIL = Script("return redis.error_reply('RINGFULL no place is free')")


def add(key: str, by: int = 1) -> ScriptRun:
    """Adds to a key."""
    return ScriptRun(ADD, (key,), (by,))


def fresh(url: str | None = None, **options: Any) -> Client:
    """A client that shares nothing with others, patient unless said otherwise."""
    return Client(address_of(url or os.environ["REDIS_URL"], {"timeout": 10, **options}))


@contextmanager
def fresh_in_a_loop() -> Iterator[Callable[..., Any]]:
    """Makes clients of one event loop, which are asked as the others are, call by call."""
    clients: list[AsyncClient] = []
    with asyncio.Runner() as runner:

        class Asked:
            def __init__(self, url: str | None = None, **options: Any) -> None:
                self._client = AsyncClient(fresh(url, **options))
                self.name = self._client.name
                clients.append(self._client)

            def __getattr__(self, name: str) -> Any:
                method = getattr(self._client, name)
                return lambda *words, **more: runner.run(method(*words, **more))

        yield Asked
        for client in clients:
            runner.run(client.close())


def named(url: str, name: str) -> str:
    """The URL of connections that the server knows by a name."""
    return f"{url}{'&' if '?' in url else '?'}client_name={name}"


@contextmanager
def server() -> Iterator[Any]:
    """A connection of redis-py that goes straight to the server."""
    client = redis.Redis.from_url(os.environ["REDIS_URL"])
    try:
        yield client
    finally:
        client.close()


@contextmanager
def some_key() -> Iterator[str]:
    """The name of a key, which is deleted afterwards."""
    key = f"djc-test:{secrets.token_hex(6)}"
    try:
        yield key
    finally:
        with server() as direct:
            direct.delete(key)


def stands_at(key: str) -> int:
    """How often it was added to, as the server says."""
    with server() as direct:
        return int(direct.get(key) or 0)


def connected(name: str) -> list[str]:
    """The ids of the connections with that name, as the server says."""
    with server() as direct:
        return [each["id"] for each in direct.client_list() if each["name"] == name]


def eventually(holds: Callable[[], bool], within: float = 20) -> bool:
    """Whether it becomes true in time. What takes long is asked less often: asking takes time."""
    deadline, pause = time.monotonic() + within, 0.005
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(pause)
        pause = min(1.2 * pause, 0.1)
    return True
