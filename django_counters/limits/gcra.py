"""Rate limits: token buckets that many servers take from at once.

A bucket is one number, the moment at which it will be full again (GCRA). Each token that is taken
moves it by an interval. A bucket refuses what would move it further ahead than a full bucket.
"""

from __future__ import annotations

import hashlib
from functools import cache as cache_results
from math import ceil
from typing import NamedTuple

from django.core.signals import setting_changed
from django.db import router
from django.dispatch import receiver

from django_counters.exceptions import InvalidConfiguration
from django_counters.rates import Rate, check_rate
from django_counters.stores.base import Bucket, LimitsStore
from django_counters.stores.redis.addresses import TIMEOUT, address_of
from django_counters.stores.sql.limits import SqlLimits
from django_counters.tables import CounterLimit

_SECOND = 1_000_000


class Taken(NamedTuple):
    """The answer of a bucket.

    Attributes:
        admitted: whether the tokens were taken; otherwise none was.
        remaining: how many more could be taken at once.
        wait: seconds until as many could be taken; 0 if they were.
        more: seconds until one more than ``remaining`` could be taken.
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
    """Take tokens from the bucket of a name, all or none: one atomic step, in one round trip.

    However many callers take at once, a bucket gives no more than ``rate.number`` tokens at once,
    and over any time no more than that and what has come in since. A new bucket is full. The time
    is that of the server that keeps it, in microseconds; the time for one token is rounded up.

    In the database it is part of the caller's transaction, if there is one: a rollback puts the
    tokens back, and other callers wait for the end of the transaction.

    Args:
        name: what is limited, and for whom: any text. Only its digest is kept.
        rate: the same name with another rate is another bucket.
        cache: the alias of a Redis in ``CACHES``; None for the database.
        using: the alias of the database; the default is that of the router.
        cost: how many tokens to take.
        timeout: seconds to wait for Redis: for the connection, and for the answer.

    Raises:
        CounterUnavailable: the store is away, or its answer was lost. The tokens may be taken.
        InvalidConfiguration: the cache is not a Redis.
        ValueError: the rate is invalid, or the cost is more than a full bucket holds.
    """
    check_rate(rate)
    if not 1 <= cost <= rate.number:
        raise ValueError(f"A bucket of {rate} never has {cost}.")
    store: LimitsStore
    if cache:
        store = _in_redis(cache, timeout)
    else:
        store = _in_database(using or router.db_for_write(CounterLimit))
    interval = ceil(rate.seconds * _SECOND / rate.number)
    full = rate.number * interval
    found = store.take(_digest(name, rate), cost * interval, full)
    return _taken(found, cost, interval, full)


def _digest(name: str, rate: Rate) -> bytes:
    return hashlib.sha256(f"{rate.number} {float(rate.seconds)!r} {name}".encode()).digest()


def _taken(found: Bucket, cost: int, interval: int, full: int) -> Taken:
    left = min(max(full - max(found.ahead, 0), 0), full)
    remaining = left // interval
    # At least 1: a bucket that has refused had too little then, whatever it has now.
    wait = 0 if found.admitted else max(found.ahead + cost * interval - full, 1)
    more = max(found.ahead + (remaining + 1) * interval - full, 1)
    return Taken(found.admitted, remaining, wait / _SECOND, more / _SECOND)


_in_database = cache_results(SqlLimits)


@cache_results
def _in_redis(cache: str, timeout: float) -> LimitsStore:
    try:
        from django_counters.stores.redis.limits import RedisLimits
    except ModuleNotFoundError as error:
        if error.name != "redis":
            raise
        problem = "limits in Redis need redis-py: pip install django-distributed-counters[redis]"
        raise InvalidConfiguration(problem=problem) from None
    return RedisLimits(address_of(cache, {"timeout": timeout}))


@receiver(setting_changed)
def _forget(*, setting: str, **_: object) -> None:
    if setting == "CACHES":
        _in_redis.cache_clear()
