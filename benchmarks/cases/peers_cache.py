"""Cached counters beside packages that count elsewhere than in the database.

The row of Django's own cache is ``cached-cache``, that of redis-py is ``cached``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from typing import Any

import prometheus_client
from django.conf import settings
from django.core.cache import caches
from django.test import override_settings
from django.utils.connection import ConnectionProxy

from benchmarks.cases.cached import COUNTING, INCREMENT, SLICE, THREADS, location, prefix
from benchmarks.harness import Case, Pair, expect, loop
from benchmarks.inspection import holds
from benchmarks.threads import threads
from django_counters.models import Counter

PEER = "peer"
IN_PROCESS = 50 * SLICE  # calls of one slice: each takes about a microsecond
_numbers = count()


@contextmanager
def django_redis() -> Iterator[Any]:
    """The cache of django-redis in the same Redis, as ``django.core.cache.cache`` would be it."""
    peer = {
        "BACKEND": "django_redis.cache.RedisCache",
        "LOCATION": location(),
        "KEY_PREFIX": prefix(),
    }
    with override_settings(CACHES={**settings.CACHES, PEER: peer}):
        cache: Any = ConnectionProxy(caches, PEER)
        try:
            yield cache
        finally:
            cache.client.get_client().connection_pool.disconnect()


def _begun(cache: Any) -> tuple[str, str, Callable[[int, int], None]]:
    """A counter of ours, a key of theirs, and how both are verified."""
    number = next(_numbers)
    mine, theirs = f"pages:peer{number}", f"peer{number}"
    Counter.objects.increment(mine)
    cache.set(theirs, 0, timeout=None)  # their incr wants a key that is there

    def verify(subject: int, reference: int) -> None:
        holds(mine, 1 + subject)
        expect(theirs, cache.get(theirs), reference)

    return mine, theirs, verify


@contextmanager
def beside_django_redis() -> Iterator[Pair]:
    """One caller."""
    with django_redis() as cache:
        mine, theirs, verify = _begun(cache)
        yield Pair(
            loop(lambda: Counter.objects.increment(mine), SLICE),
            loop(lambda: cache.incr(theirs), SLICE),
            verify,
        )


@contextmanager
def beside_django_redis_together() -> Iterator[Pair]:
    """Some threads; each has a cache object of its own, all of them share a pool."""
    with django_redis() as cache, threads(THREADS) as team:
        mine, theirs, verify = _begun(cache)
        yield Pair(
            team.side(lambda: Counter.objects.increment(mine), COUNTING),
            team.side(lambda: cache.incr(theirs), COUNTING),
            verify,
        )


@contextmanager
def beside_prometheus() -> Iterator[Pair]:
    """A number of this process: no other sees it, and it ends with the process.

    A label for each key is the way to count many things there.
    """
    key = f"pages:peer{next(_numbers)}"
    registry = prometheus_client.CollectorRegistry()
    pages = prometheus_client.Counter("pages", "visits of pages", ["key"], registry=registry)
    Counter.objects.increment(key)

    def verify(subject: int, reference: int) -> None:
        holds(key, 1 + subject)
        told = registry.get_sample_value("pages_total", {"key": key})
        expect("prometheus_client", int(told or 0), reference)

    yield Pair(
        loop(lambda: Counter.objects.increment(key), SLICE),
        loop(lambda: pages.labels(key).inc(), IN_PROCESS),
        verify,
    )


NOT_TIMED = "landing it is not timed: see flush"
LANDS = f"{INCREMENT} ({NOT_TIMED})"
DJANGO_REDIS = "incr of django-redis: stays in Redis"

CASES: Sequence[Case] = (
    Case("django-redis", LANDS, DJANGO_REDIS, None, beside_django_redis),
    Case(
        "django-redis-threads",
        f"{INCREMENT}, {THREADS} threads ({NOT_TIMED})",
        DJANGO_REDIS,
        None,
        beside_django_redis_together,
        slices=5,
    ),
    Case(
        "prometheus",
        f"{INCREMENT}: one number of all processes ({NOT_TIMED})",
        "labels().inc() of prometheus_client: this process alone, gone with it, no total",
        None,
        beside_prometheus,
    ),
)
