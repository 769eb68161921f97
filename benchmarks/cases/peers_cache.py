"""Cached counters beside packages that count elsewhere than in the database.

The row of Django's own cache is ``cached-cache``, that of redis-py is ``cached``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any

import prometheus_client
from django.conf import settings
from django.core.cache import caches
from django.test import override_settings
from django.utils.connection import ConnectionProxy

from benchmarks.cases.cached import (
    SLICE,
    THREADS,
    beside_incr,
    location,
    names,
    prefix,
)
from benchmarks.harness import (
    Pair,
    Work,
    adds_up,
    loop,
)
from benchmarks.inspection import increment, value
from benchmarks.team import threads

PEER = "peer"
IN_PROCESS = 50 * SLICE  # calls of one slice: each takes about a microsecond


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


@contextmanager
def beside_django_redis(together: bool = False) -> Iterator[Pair]:
    """Each of some threads has a cache object of its own; all of them share a pool."""
    with django_redis() as cache, threads(THREADS) if together else nullcontext() as team:
        yield beside_incr(cache, team)


@contextmanager
def beside_prometheus() -> Iterator[Pair]:
    """A number of this process: no other sees it, and it ends with the process.

    A label for each key is the way to count many things there.
    """
    key, _ = names("prometheus")
    registry = prometheus_client.CollectorRegistry()
    pages = prometheus_client.Counter("pages", "visits of pages", ["key"], registry=registry)

    def told() -> int:
        return int(registry.get_sample_value("pages_total", {"key": key}) or 0)

    yield Pair(
        loop(partial(increment, key), SLICE),
        loop(lambda: pages.labels(key).inc(), IN_PROCESS),
        adds_up(value(key), told),
    )


CASES: Mapping[str, Work] = {
    "django-redis": Work(beside_django_redis),
    "django-redis-threads": Work(partial(beside_django_redis, True), slices=5),
    "prometheus": Work(beside_prometheus),
}
