"""Cached counters, compared with what redis-py and Django's cache do on the same Redis.

Both sides use the same redis-py on connections of the same kind, with hiredis or without it as it
is installed. Where the Redis is our own it listens on a unix socket, and for some cases on a port.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from itertools import count
from typing import Any

import redis
import redis.asyncio
from django.conf import settings
from django.core.cache import cache, caches
from django.db import transaction
from django.test import override_settings
from django.utils.connection import ConnectionProxy

from benchmarks.harness import (
    Action,
    Pair,
    Sample,
    Side,
    Stored,
    Verify,
    Work,
    adds_up,
    loop,
    loops,
    remain,
)
from benchmarks.inspection import increment, value
from benchmarks.models import Post
from benchmarks.team import Team, threads
from django_counters.cached.requests import Requests
from django_counters.cached.sources import slots_of
from django_counters.event import Event
from django_counters.models import Counter
from django_counters.redis.commands import Word
from django_counters.write.changes import Change, named
from example_project.bootstrap.postgres import free_port

SLICE = 200  # calls of one slice
BATCH = 100  # counters of a batch
PAGE = 500  # counters that are read at once
THREADS = 4
COUNTING = 0.1  # seconds of one slice of threads
TRANSACTIONS = 50
AGE = 60_000  # milliseconds
_numbers = count()


def location() -> str:
    """The URL of the Redis that the cache is in."""
    return str(settings.CACHES["default"]["LOCATION"])


def prefix() -> str:
    """What keys of ours begin with there."""
    return str(settings.CACHES["default"]["KEY_PREFIX"])


@contextmanager
def client() -> Iterator[Any]:
    """A client of redis-py as it comes."""
    with redis.Redis.from_url(location()) as plain:
        yield plain


@contextmanager
def over_tcp() -> Iterator[None]:
    """The same Redis over TCP; a server of our own opens a port of the loopback for it."""
    if not location().startswith("unix:"):
        yield
        return
    port = free_port()
    with client() as server:
        server.config_set("bind", "127.0.0.1")
        server.config_set("port", port)
        default = {**settings.CACHES["default"], "LOCATION": f"redis://127.0.0.1:{port}/0"}
        try:
            with override_settings(CACHES={**settings.CACHES, "default": default}):
                yield
        finally:
            server.config_set("port", 0)


def names(what: str) -> tuple[str, str]:
    """A counter that is there, and a key of the same length for what it is compared with."""
    number = next(_numbers)
    mine = f"pages:{what}{number}"
    increment(mine)
    return mine, f"{prefix()}:{what}{number}"


def has(server: Any, key: str) -> Stored:
    """What a key of a Redis or of a cache has."""
    return lambda: int(server.get(key) or 0)


def by(team: Team | None, mine: Action, theirs: Action, verify: Verify) -> Pair:
    """One caller of each, or some together."""
    if team is None:
        return loops(mine, theirs, verify, SLICE)
    return Pair(team.side(mine, COUNTING), team.side(theirs, COUNTING), verify)


@contextmanager
def beside_script(
    way: Callable[[], AbstractContextManager[None]], together: bool = False
) -> Iterator[Pair]:
    """An increment, and the script that it sends through redis-py; threads share a client."""
    with way(), client() as server, threads(THREADS) if together else nullcontext() as team:
        (mine, _), (theirs, _) = names("library"), names("script")
        words, verify = evalsha(theirs), adds_up(value(mine), value(theirs))
        yield by(team, partial(increment, mine), lambda: server.evalsha(*words), verify)


def beside_incr(cache: Any, team: Team | None = None) -> Pair:
    """An increment, and what caches offer, which want a key that is there."""
    mine, theirs = names("incr")
    cache.set(theirs, 0, timeout=None)
    verify = adds_up(value(mine), has(cache, theirs))
    return by(team, partial(increment, mine), lambda: cache.incr(theirs), verify)


@contextmanager
def beside_cache() -> Iterator[Pair]:
    """What Django itself offers."""
    yield beside_incr(cache)


@contextmanager
def django_redis() -> Iterator[Any]:
    """The cache of django-redis in the same Redis, as ``django.core.cache.cache`` would be it."""
    peer = {
        "BACKEND": "django_redis.cache.RedisCache",
        "LOCATION": location(),
        "KEY_PREFIX": prefix(),
    }
    with override_settings(CACHES={**settings.CACHES, "peer": peer}):
        cache: Any = ConnectionProxy(caches, "peer")
        try:
            yield cache
        finally:
            cache.client.get_client().connection_pool.disconnect()


@contextmanager
def beside_django_redis(together: bool = False) -> Iterator[Pair]:
    """Each of some threads has a cache object of its own; all of them share a pool."""
    with django_redis() as cache, threads(THREADS) if together else nullcontext() as team:
        yield beside_incr(cache, team)


def evalsha(key: str, who: int | None = None) -> tuple[Word, ...]:
    """The words of the script that adds one to a counter, to its cells, and who it was to sets."""
    delta = Change(named(key), 1, event=Event(who=who)).delta
    requests = Requests(key, slots_of("default", prefix()), together=True)
    (command,) = requests.add({key: delta}, AGE).commands
    return (command.script.sha, len(command.keys), *command.keys, *command.args)


@contextmanager
def many() -> Iterator[Pair]:
    """Batches, and single increments."""
    deltas = {f"pages:many{number}": 1 for number in range(BATCH)}
    single, _ = names("single")
    Counter.objects.increment_many(deltas)
    yield Pair(
        loop(lambda: Counter.objects.increment_many(deltas), 5, BATCH),
        loop(partial(increment, single), SLICE),
        adds_up(lambda: sum(Counter.objects.values_of(deltas).values()), value(single)),
    )


@contextmanager
def reading(keys: int) -> Iterator[Pair]:
    """Values from Redis alone, and as many keys of redis-py in one command."""
    deltas = {f"pages:read{keys}:{number}": number + 1 for number in range(keys)}
    with client() as server:
        plain = {f"{prefix()}:{key}": by for key, by in deltas.items()}
        Counter.objects.increment_many(deltas)
        server.mset(plain)

        def cached() -> int:
            return sum(Counter.objects.values_of(deltas, consistency="cached").values())

        def bare() -> int:
            return sum(map(int, server.mget(plain)))

        due, get = sum(deltas.values()), partial(server.get, next(iter(plain)))
        ways = cached, bare if keys > 1 else get
        mine, theirs = (loop(way, max(2, SLICE // keys), keys) for way in ways)
        yield Pair(mine, theirs, remain((cached, due), (bare, due)))


@contextmanager
def script() -> Iterator[Pair]:
    """What the server takes to add, both sides through redis-py: the library leaves the rest."""
    mine, theirs = names("script")
    words = evalsha(mine)
    with client() as server:
        verify = adds_up(value(mine), has(server, theirs))
        incr = partial(server.incrby, theirs, 1)
        yield loops(lambda: server.evalsha(*words), incr, verify, SLICE)


@contextmanager
def awaited() -> Iterator[Pair]:
    """One task, in an event loop that lasts."""
    mine, theirs = names("awaited")
    server: Any = redis.asyncio.Redis.from_url(location())
    with asyncio.Runner() as runner, client() as plain:
        yield Pair(
            _awaiting(runner, lambda: Counter.objects.aincrement(mine)),
            _awaiting(runner, lambda: server.incrby(theirs, 1)),
            adds_up(value(mine), has(plain, theirs)),
        )
        runner.run(server.aclose())


def _awaiting(runner: asyncio.Runner, action: Callable[[], Coroutine[Any, Any, object]]) -> Side:
    async def turn() -> Sample:
        started = time.perf_counter()
        for _ in range(SLICE):
            await action()
        return Sample(SLICE, time.perf_counter() - started)

    return lambda: runner.run(turn())


@contextmanager
def on_commit() -> Iterator[Pair]:
    """Transactions from their begin until they are committed; Redis is asked after both.

    The first statement of a transaction takes longer where others had the processor before it.
    """
    post = Post.objects.create(title="counted")
    mine, theirs = names("commit")
    with client() as server:
        yield Pair(
            partial(_transactions, post, partial(increment, mine), lambda: None),
            partial(_transactions, post, lambda: None, lambda: server.incrby(theirs, 1)),
            adds_up(value(mine), has(server, theirs)),
        )


def _transactions(post: Post, action: Callable[[], object], after: Callable[[], object]) -> Sample:
    seconds = 0.0
    for _ in range(TRANSACTIONS):
        ended: list[float] = []
        started = time.perf_counter()
        with transaction.atomic():
            # The first to be called after COMMIT: what is sent then is no part of it.
            transaction.on_commit(lambda: ended.append(time.perf_counter()))  # noqa: B023
            Post.objects.filter(pk=post.pk).update(title="counted")
            action()
        after()
        seconds += ended[0] - started
    return Sample(TRANSACTIONS, seconds)


CASES: Mapping[str, Work] = {
    "cached": Work(partial(beside_script, nullcontext)),
    "cached-threads": Work(partial(beside_script, nullcontext, True), slices=5),
    "cached-tcp": Work(partial(beside_script, over_tcp)),
    "cached-cache": Work(beside_cache),
    "django-redis": Work(beside_django_redis),
    "django-redis-threads": Work(partial(beside_django_redis, True), slices=5),
    "cached-many": Work(many),
    "cached-read": Work(partial(reading, 1)),
    "cached-page": Work(partial(reading, PAGE)),
    "cached-script": Work(script),
    "cached-async": Work(awaited),
}

# A commit has to wait for the disk, or there is nothing that a transaction could last longer than.
COMMITS: Mapping[str, Work] = {"cached-commit": Work(on_commit)}
