"""Turns what was gathered into samples of metrics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from django_counters.features import GaugeValue
from django_counters.metrics import names
from django_counters.metrics.gathering import Scrape
from django_counters.metrics.names import Declared
from django_counters.models import CounterIncident
from django_counters.observe.facts import Facts
from django_counters.observe.redises import Redis
from django_counters.stores.redis.breaker import STATES
from django_counters.write.adopting import directories, left
from django_counters.write.buffers import buffers

PARTS = ("database", "pending", "ledger", "incidents", "requests", "rooms", "redis", "findings")


class Sample(NamedTuple):
    """One number of a metric, with the values of its labels in their order."""

    metric: Declared
    labels: tuple[str, ...]
    value: float


def samples(scrape: Scrape) -> Iterator[Sample]:
    """All that is known of one database."""
    found, using = scrape.facts, scrape.facts.using
    for part, is_up in zip(PARTS, _up(scrape), strict=True):
        yield Sample(names.UP, (using, part), is_up)
    if scrape.seconds is not None:
        yield Sample(names.GATHER_SECONDS, (using,), scrape.seconds)
    if found.requests is not None:
        yield Sample(names.REQUESTS, (using,), found.requests)
    for room in found.rooms or ():
        yield Sample(names.CREATED, (using, room.namespace), room.created)
        yield Sample(names.MOST_CREATED, (using, room.namespace), room.most)
    if scrape.needed is not None:
        yield Sample(names.FINDINGS, (using,), scrape.needed)
    yield from _buffers(using)
    yield from _waits(found)
    yield from _ledger(found)
    yield from _incidents(found)
    for redis in found.redises or ():
        yield from _redis(using, redis)
    yield from _added(found)


def _up(scrape: Scrape) -> tuple[bool, ...]:
    found, redises = scrape.facts, scrape.facts.redises
    parts = (found.spread, found.ledger, found.incidents, found.requests, found.rooms)
    answered = redises is not None and all(one.generations is not None for one in redises)
    known = (part is not None for part in parts)
    return bool(found.has_counters), *known, answered, scrape.needed is not None


def _buffers(using: str) -> Iterator[Sample]:
    amounts: Counter[str] = Counter()
    ages: dict[str, float] = {}
    for of, waits in buffers.waiting(using):
        amounts[of.recipe.strategy] += waits.amount
        ages[of.recipe.strategy] = max(ages.get(of.recipe.strategy, 0.0), waits.age)
    for strategy, age in ages.items():
        yield Sample(names.BUFFERED, (using, strategy), amounts[strategy])
        yield Sample(names.BUFFER_AGE, (using, strategy), age)
    if directories():
        yield Sample(names.LEFT_FILES, (using,), sum(1 for _ in left(using)))


def _waits(found: Facts) -> Iterator[Sample]:
    if found.spread is None:
        return
    rows: Counter[str] = Counter(sharded=0, slotted=0)
    counters: Counter[str] = Counter(sharded=0, slotted=0)
    for one in found.spread:
        # Rows count for the present strategy, which may also be the ledger or cached.
        rows[one.strategy] += one.rows
        counters[one.strategy] += one.counters
    if found.ledger is not None:
        rows["ledger"] += found.ledger.entries
        counters["ledger"] += found.ledger.counters
    for strategy, number in rows.items():
        yield Sample(names.PENDING_ROWS, (found.using, strategy), number)
        yield Sample(names.PENDING_COUNTERS, (found.using, strategy, ""), counters[strategy])


def _ledger(found: Facts) -> Iterator[Sample]:
    ledger, labels = found.ledger, (found.using,)
    if ledger is None:
        return
    yield Sample(names.FENCED, labels, bool(ledger.fenced))
    if ledger.lag is not None:
        yield Sample(names.ROLLUP_LAG, labels, ledger.lag.total_seconds())
    if ledger.partitions_ahead is not None:
        yield Sample(names.PARTITIONS, labels, ledger.partitions_ahead)


def _incidents(found: Facts) -> Iterator[Sample]:
    if found.incidents is None:
        return
    numbers = {one.kind: one.number for one in found.incidents}
    for kind in {**dict.fromkeys(CounterIncident.Kind.values, 0), **numbers}:
        yield Sample(names.INCIDENTS, (found.using, kind), numbers.get(kind, 0))


def _added(found: Facts) -> Iterator[Sample]:
    for one in found.added or ():
        if isinstance(one, GaugeValue):
            yield Sample(names.declared_for(one.gauge), (found.using, *one.labels), one.value)


def _redis(using: str, redis: Redis) -> Iterator[Sample]:
    labels = (using, redis.name)
    yield Sample(names.REDIS_UP, labels, redis.generations is not None)
    for state in STATES if redis.breaker else ():
        yield Sample(names.BREAKER, (*labels, state), state == redis.breaker)
    if redis.generations is not None:
        lag = redis.lag.total_seconds() if redis.lag else 0.0
        yield Sample(names.FLUSH_LAG, labels, max(lag, 0.0))
        yield Sample(names.PENDING_GENERATIONS, labels, redis.generations)
        yield Sample(names.PENDING_COUNTERS, (using, "cached", redis.name), redis.counters)
