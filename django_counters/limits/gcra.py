"""How much is admitted in how much time: token buckets that many servers take from at once.

A bucket is one number, the moment at which it will be full again (GCRA). Each that is taken moves
it by an interval; what would move it further ahead than a whole bucket is refused.
"""

from __future__ import annotations

import hashlib
from math import ceil
from typing import NamedTuple

from django.core.signals import setting_changed
from django.db import router

from django_counters.exceptions import InvalidConfiguration
from django_counters.rates import Rate, check_rate
from django_counters.stores.base import Bucket, LimitsStore
from django_counters.stores.redis.addresses import TIMEOUT, address_of
from django_counters.stores.sql.limits import SqlLimits
from django_counters.tables import CounterLimit

_SECOND = 1_000_000


class Taken(NamedTuple):
    """Whether something was admitted.

    Attributes:
        admitted: whether it was; else nothing was taken.
        remaining: how many more would be admitted at once.
        wait: seconds until as much would be admitted; 0 where it was.
        more: seconds until one more than the remaining would be admitted.
    """

    admitted: bool
    remaining: int
    wait: float
    more: float


def take(
    name: str,
    rate: Rate,
    *,
    cache: str | None,
    using: str | None = None,
    cost: int = 1,
    timeout: float = TIMEOUT,
) -> Taken:
    """Take from the bucket of a name, if it has as much: one atomic step, in one round trip.

    However many take at once, no more than ``rate.number`` are admitted at once, and in any time
    no more than that and what has come in since. A bucket that nobody has taken from is full. The
    time is that of the server that keeps it, in microseconds; the time for one is rounded up.

    In the database it is part of the caller's transaction, if there is one: what is rolled back is
    in the bucket again, and others who take from it wait for the end of the transaction.

    Args:
        name: what is limited, and for whom: any text. Only its digest is kept.
        rate: the same name with another rate is another bucket.
        cache: the alias of a Redis in ``CACHES``; None for the database.
        using: the alias of the database; else the router decides.
        cost: how many to take, all or none.
        timeout: seconds to wait for Redis: for the connection, and for the answer.

    Raises:
        CounterUnavailable: the store is away, or its answer was lost. As much may have been taken.
        InvalidConfiguration: the cache is not a Redis.
        ValueError: the rate is none, or the cost is more than a full bucket holds.
    """
    check_rate(rate)
    if not 1 <= cost <= rate.number:
        raise ValueError(f"A bucket of {rate} never has {cost}.")
    store = _stores.in_redis(cache, timeout) if cache else _stores.in_database(using)
    interval = ceil(rate.seconds * _SECOND / rate.number)
    full = rate.number * interval
    found = store.take(_digest(name, rate), cost * interval, full)
    return _taken(found, cost, interval, full)


def _digest(name: str, rate: Rate) -> bytes:
    return hashlib.sha256(f"{rate.number} {float(rate.seconds)!r} {name}".encode()).digest()


def _taken(found: Bucket, cost: int, interval: int, full: int) -> Taken:
    left = min(max(full - max(found.ahead, 0), 0), full)
    remaining = left // interval
    # Others may have been refused meanwhile, but it was not there when it was asked for.
    wait = 0 if found.admitted else max(found.ahead + cost * interval - full, 1)
    more = max(found.ahead + (remaining + 1) * interval - full, 1)
    return Taken(found.admitted, remaining, wait / _SECOND, more / _SECOND)


class _Stores:
    """Where buckets are kept, for this process. Holds no bucket."""

    def __init__(self) -> None:
        self._redis: dict[tuple[str, float], LimitsStore] = {}
        self._sql: dict[str, LimitsStore] = {}

    def in_redis(self, cache: str, timeout: float) -> LimitsStore:
        """That of the alias of a cache."""
        made = self._redis
        found = made.get((cache, timeout))
        return found or made.setdefault((cache, timeout), _redis_limits(cache, timeout))

    def in_database(self, using: str | None) -> LimitsStore:
        """That of a database; the router decides where none is given."""
        alias = using or router.db_for_write(CounterLimit)
        return self._sql.get(alias) or self._sql.setdefault(alias, SqlLimits(alias))

    def forget(self, *, setting: str, **_: object) -> None:
        """Receives Django's ``setting_changed``."""
        if setting == "CACHES":
            self._redis = {}


def _redis_limits(cache: str, timeout: float) -> LimitsStore:
    # redis-py is an extra.
    try:
        from django_counters.stores.redis.limits import RedisLimits
    except ModuleNotFoundError as error:
        if error.name != "redis":
            raise
        problem = "limits in Redis need redis-py: pip install django-distributed-counters[redis]"
        raise InvalidConfiguration(problem=problem) from None
    return RedisLimits(address_of(cache, {"timeout": timeout}))


_stores = _Stores()
setting_changed.connect(_stores.forget)
