"""Cached counters, compared with what redis-py and Django's cache do on the same Redis.

Both sides use the same redis-py on connections of the same kind, with hiredis or without it as it
is installed. Where the Redis is our own it listens on a unix socket, and for some cases on a port.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from itertools import count
from typing import Any

import redis
import redis.asyncio
from django.conf import settings
from django.core.cache import cache
from django.db import transaction
from django.test import override_settings

from benchmarks.harness import Case, Pair, Sample, Side, at_least, expect, loop
from benchmarks.inspection import holds
from benchmarks.models import Post
from benchmarks.threads import threads
from django_counters.models import Counter
from django_counters.stores.redis.commands import packed
from django_counters.stores.redis.keys import Slots, proposed, slot_of
from django_counters.stores.redis.scripts import ADD
from example_project.bootstrap.postgres import free_port

SLICE = 200  # calls of one slice
BATCH = 100  # counters of a batch
PAGE = 500  # counters that are read at once
THREADS = 4
COUNTING = 0.1  # seconds of one slice of threads
TRANSACTIONS = 50
AGE = 60_000  # milliseconds
ANSWER = 64  # bytes, more than an answer has
_numbers = count()

Prepare = Callable[[], AbstractContextManager[Pair]]


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
def as_it_is() -> Iterator[None]:
    """Over the kind of connection that the URL names."""
    yield


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


def _names(what: str) -> tuple[str, str]:
    """A counter, and a key of the same length for what it is compared with."""
    number = next(_numbers)
    return f"pages:{what}{number}", f"{prefix()}:{what}{number}"


def _verifier(server: Any, mine: str, theirs: str) -> Callable[[int, int], None]:
    def verify(subject: int, reference: int) -> None:
        holds(mine, 1 + subject)
        expect(theirs, int(server.get(theirs)), reference)

    return verify


@contextmanager
def alone(way: Callable[[], AbstractContextManager[None]]) -> Iterator[Pair]:
    """One caller."""
    with way(), client() as server:
        mine, theirs = _names("alone")
        Counter.objects.increment(mine)
        yield Pair(
            loop(lambda: Counter.objects.increment(mine), SLICE),
            loop(lambda: server.incrby(theirs, 1), SLICE),
            _verifier(server, mine, theirs),
        )


@contextmanager
def together(way: Callable[[], AbstractContextManager[None]]) -> Iterator[Pair]:
    """Some threads that share a client."""
    with way(), client() as server, threads(THREADS) as team:
        mine, theirs = _names("together")
        Counter.objects.increment(mine)
        yield Pair(
            team.side(lambda: Counter.objects.increment(mine), COUNTING),
            team.side(lambda: server.incrby(theirs, 1), COUNTING),
            _verifier(server, mine, theirs),
        )


@contextmanager
def beside_cache() -> Iterator[Pair]:
    """What Django itself offers; its value gets no older than five minutes, ours for good."""
    mine, theirs = _names("cache")
    Counter.objects.increment(mine)
    cache.set(theirs, 0)

    yield Pair(
        loop(lambda: Counter.objects.increment(mine), SLICE),
        loop(lambda: cache.incr(theirs), SLICE),
        _verifier(cache, mine, theirs),
    )


@contextmanager
def on_a_socket() -> Iterator[Pair]:
    """An increment that no Python makes or reads: no client could have its answer sooner."""
    mine, theirs = _names("socket")
    Counter.objects.increment(mine)
    cache.set(theirs, 0)
    request = packed("EVALSHA", *_evalsha(mine))
    with client() as server:
        connection = server.connection_pool.make_connection()
        connection.connect()
        sock = connection._sock
        sock.settimeout(None)

        def add() -> None:
            sock.sendall(request)
            sock.recv(ANSWER)

        yield Pair(
            loop(add, SLICE),
            loop(lambda: cache.incr(theirs), SLICE),
            _verifier(cache, mine, theirs),
        )
        connection.disconnect()


def _evalsha(key: str) -> tuple[str | int, ...]:
    """The words of the script that adds one to a counter."""
    slot = slot_of(key)
    keys = Slots("default", prefix()).keys(slot)
    return (ADD.sha, len(keys), *keys, AGE, proposed(slot), 1, key, 1)


@contextmanager
def many() -> Iterator[Pair]:
    """Batches, and single increments."""
    deltas = {f"pages:many{number}": 1 for number in range(BATCH)}
    single, _ = _names("single")
    Counter.objects.increment_many({**deltas, single: 1})

    def verify(subject: int, reference: int) -> None:
        stored = sum(Counter.objects.values_of(deltas).values())
        expect("the sum of all keys", stored, BATCH + subject)
        holds(single, 1 + reference)

    yield Pair(
        loop(lambda: Counter.objects.increment_many(deltas), 5, BATCH),
        loop(lambda: Counter.objects.increment(single), SLICE),
        verify,
    )


@contextmanager
def reading(keys: int) -> Iterator[Pair]:
    """Values from Redis alone, and as many keys of redis-py in one command."""
    deltas = {f"pages:read{keys}:{number}": number + 1 for number in range(keys)}
    with client() as server:
        plain = {f"{prefix()}:{key}": by for key, by in deltas.items()}
        Counter.objects.increment_many(deltas)
        server.mset(plain)

        def cached() -> dict[str, int]:
            return Counter.objects.values_of(deltas, consistency="cached")

        def bare() -> list[int]:
            return list(map(int, server.mget(plain)))

        def verify(*_: int) -> None:
            expect("cached values", sum(cached().values()), sum(deltas.values()))
            expect("bare values", sum(bare()), sum(deltas.values()))

        get = partial(server.get, next(iter(plain)))
        times = max(2, SLICE // keys)
        yield Pair(loop(cached, times, keys), loop(bare if keys > 1 else get, times, keys), verify)


@contextmanager
def script() -> Iterator[Pair]:
    """What the server takes to add, both sides through redis-py: the library leaves the rest."""
    key, theirs = _names("script")
    Counter.objects.increment(key)
    words = _evalsha(key)
    with client() as server:
        yield Pair(
            loop(lambda: server.evalsha(*words), SLICE),
            loop(lambda: server.incrby(theirs, 1), SLICE),
            _verifier(server, key, theirs),
        )


@contextmanager
def awaited() -> Iterator[Pair]:
    """One task, in an event loop that lasts."""
    mine, theirs = _names("awaited")
    server: Any = redis.asyncio.Redis.from_url(location())
    Counter.objects.increment(mine)
    with asyncio.Runner() as runner, client() as plain:
        yield Pair(
            _awaiting(runner, lambda: Counter.objects.aincrement(mine)),
            _awaiting(runner, lambda: server.incrby(theirs, 1)),
            _verifier(plain, mine, theirs),
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
    mine, theirs = _names("commit")
    Counter.objects.increment(mine)
    with client() as server:
        yield Pair(
            partial(_transactions, post, lambda: Counter.objects.increment(mine), lambda: None),
            partial(_transactions, post, lambda: None, lambda: server.incrby(theirs, 1)),
            _verifier(server, mine, theirs),
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


INCREMENT, BARE = "increment, cached", "INCRBY of redis-py"
CACHE = "incr of Django's cache"

CASES: Sequence[Case] = (
    Case("cached", INCREMENT, BARE, at_least(0.75), partial(alone, as_it_is)),
    Case(
        "cached-threads",
        f"{INCREMENT}, {THREADS} threads",
        BARE,
        at_least(0.75),
        partial(together, as_it_is),
        slices=5,
    ),
    Case("cached-tcp", f"{INCREMENT}, over TCP", BARE, at_least(0.75), partial(alone, over_tcp)),
    Case(
        "cached-tcp-threads",
        f"{INCREMENT}, {THREADS} threads, over TCP",
        BARE,
        at_least(0.75),
        partial(together, over_tcp),
        slices=5,
    ),
    Case("cached-cache", INCREMENT, CACHE, at_least(4), beside_cache),
    Case("cached-socket", "its bytes on a bare socket, no client", CACHE, None, on_a_socket),
    Case(
        "cached-many",
        f"increment_many of {BATCH}, cached, per key",
        "increment, cached",
        at_least(8),
        many,
    ),
    Case("cached-read", "cached value of one key", "GET", None, partial(reading, 1)),
    Case(
        "cached-page",
        f"cached values of {PAGE} keys, per key",
        f"MGET of {PAGE} keys",
        None,
        partial(reading, PAGE),
    ),
    Case("cached-script", "EVALSHA of the script that adds", BARE, None, script),
    Case("cached-async", "aincrement, cached", "INCRBY of redis.asyncio", None, awaited),
)

# A commit has to wait for the disk, or there is nothing that a transaction could last longer than.
COMMITS: Sequence[Case] = (
    Case(
        "cached-commit",
        "a transaction that counts on commit, until it is committed",
        "the same without a counter, INCRBY after it",
        at_least(0.95),
        on_commit,
    ),
)
