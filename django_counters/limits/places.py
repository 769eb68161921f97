"""Where limits are kept: a Redis of ``CACHES``, or a database."""

from __future__ import annotations

from functools import cache as cache_results
from importlib.util import find_spec

from django.core.signals import setting_changed
from django.db import router
from django.dispatch import receiver

from django_counters.exceptions import InvalidConfiguration
from django_counters.stores.base import LimitsStore
from django_counters.stores.redis.addresses import address_of, is_other_cache
from django_counters.stores.sql.limits import SqlLimits
from django_counters.tables import CounterLimit

if find_spec("redis"):
    # A child that is forked while another thread imports it would wait for that thread for ever.
    from django_counters.stores.redis import limits  # noqa: F401


def store_of(cache: str | None, using: str | None, timeout: float) -> LimitsStore:
    """The Redis of an alias of ``CACHES``; the database where that is None or another cache.

    Raises:
        InvalidConfiguration: there is no such cache, or it cannot count in one atomic step.
    """
    found = _in_redis(cache, timeout) if cache else None
    return found or _in_database(using or router.db_for_write(CounterLimit))


_in_database = cache_results(SqlLimits)


@cache_results
def _in_redis(cache: str, timeout: float) -> LimitsStore | None:
    if is_other_cache(cache):
        return None
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
