"""What cached counters add to upkeep, monitoring and commands. It imports little until asked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

from django.db.models import Q, Sum
from django.utils.translation import gettext_lazy as _
from django.utils.translation import gettext_noop

from django_counters import clock
from django_counters.features import Feature, Finding, Gauge, GaugeValue, Job
from django_counters.metrics.facts import PERIODS, InflowRate, Part
from django_counters.metrics.samples import PENDING
from django_counters.redis.routes import STATES
from django_counters.registry import registry
from django_counters.stores.sql.batches import SqlBatches
from django_counters.tables import CounterBatch
from django_counters.tables.schema import COUNTERS
from django_counters.upkeep import caches

if TYPE_CHECKING:
    from django_counters.cached.state import Redis

_FOLDER = __name__.rpartition(".")[0]
PENDING_GENERATIONS = Gauge(
    "django_counters_pending_generations",
    "How many generations wait in a Redis for a flush.",
    ("redis",),
)
FLUSH_LAG = Gauge(
    "django_counters_flush_lag_seconds",
    "For how long something waits in a Redis at most; 0 where nothing does.",
    ("redis",),
)
REDIS_UP = Gauge(
    "django_counters_redis_up", "1 if a Redis answered what waits there, else 0.", ("redis",)
)
BREAKER = Gauge(
    "django_counters_breaker_state",
    "1 for the state of the breaker in the process that was scraped, 0 for the other states.",
    ("redis", "state"),
)


class RedisStates(Part):
    """Each Redis that may hold increments. One that doesn't answer is a finding."""

    name = "redis"
    label = gettext_noop("Redis")

    def read(self, using: str) -> Iterator[tuple[Redis, ...]]:
        stands = COUNTERS.stands_in(using)
        if not (caches(using) or (stands and registry.kept(SqlBatches, using).sources())):
            yield ()
            return
        from django_counters.cached.state import redises

        yield from redises(using)

    def is_up(self, state: tuple[Redis, ...]) -> bool:
        return all(one.generations is not None for one in state)

    def findings(self, state: tuple[Redis, ...]) -> Iterator[Finding]:
        if state:
            from django_counters.cached.state import findings

            for redis in state:
                yield from findings(redis)

    def values(self, state: tuple[Redis, ...]) -> Iterator[GaugeValue]:
        for redis in state:
            labels = (redis.name,)
            yield GaugeValue(REDIS_UP, labels, redis.generations is not None)
            for name in STATES if redis.breaker else ():
                yield GaugeValue(BREAKER, (*labels, name), name == redis.breaker)
            if redis.generations is not None:
                lag = redis.lag.total_seconds() if redis.lag else 0.0
                yield GaugeValue(FLUSH_LAG, labels, max(lag, 0.0))
                yield GaugeValue(PENDING_GENERATIONS, labels, redis.generations)
                yield GaugeValue(PENDING, ("cached", redis.name), redis.counters)


class FlushRates(Part):
    """How much was flushed from Redis."""

    name = "landed"
    label = gettext_noop("landed increments")
    examined = False

    def read(self, using: str) -> Iterator[tuple[InflowRate, ...]]:
        since = {minutes: clock.now() - timedelta(minutes=minutes) for minutes in PERIODS}
        rows = CounterBatch._base_manager.using(using).filter(applied_at__gt=min(since.values()))
        sums = rows.aggregate(
            **{
                f"of_{minutes}": Sum("total", filter=Q(applied_at__gt=moment), default=0)
                for minutes, moment in since.items()
            }
        )
        yield tuple(InflowRate(minutes, int(sums[f"of_{minutes}"])) for minutes in PERIODS)


class CachedFeature(Feature):
    """The command, job and metrics of cached counters."""

    commands = {"flush": f"{_FOLDER}.flushing"}

    def jobs(self) -> Sequence[Job]:
        text = _("flush increments from Redis into the totals")
        return [Job("flush", 10, f"{_FOLDER}.flushing.flush", text)]

    def parts(self) -> Sequence[Part]:
        return [RedisStates(), FlushRates()]

    def gauges(self) -> Sequence[Gauge]:
        return [PENDING_GENERATIONS, FLUSH_LAG, REDIS_UP, BREAKER]


CACHED = CachedFeature()
