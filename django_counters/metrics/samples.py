"""From what was gathered to samples of metrics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from django_counters import clock
from django_counters.metrics import names
from django_counters.metrics.gathering import Gathered
from django_counters.metrics.names import Declared
from django_counters.models import CounterIncident
from django_counters.stores.redis.breaker import STATES
from django_counters.upkeep.doctor import Asked

PARTS = ("database", "pending", "ledger", "incidents", "requests", "rooms", "redis", "findings")


class Sample(NamedTuple):
    """One number, and the values of the labels that its metric declares, in their order."""

    metric: Declared
    labels: tuple[str, ...]
    value: float


def samples(found: Gathered) -> Iterator[Sample]:
    """All that is known of one database."""
    using = found.using
    for part, is_up in zip(PARTS, _up(found), strict=True):
        yield Sample(names.UP, (using, part), is_up)
    if found.seconds is not None:
        yield Sample(names.GATHER_SECONDS, (using,), found.seconds)
    if found.requests is not None:
        yield Sample(names.REQUESTS, (using,), found.requests)
    for room in found.rooms or ():
        yield Sample(names.CREATED, (using, room.namespace), room.created)
        yield Sample(names.MOST_CREATED, (using, room.namespace), room.most)
    if found.findings is not None:
        yield Sample(names.FINDINGS, (using,), found.findings)
    yield from _waits(found)
    yield from _ledger(found)
    yield from _incidents(found)
    for name, asked in (found.redises or {}).items():
        yield from _redis(using, name, asked)


def _up(found: Gathered) -> tuple[bool, ...]:
    redises = found.redises
    return (
        bool(found.tables),
        found.waits is not None,
        found.ledger is not None,
        found.incidents is not None,
        found.requests is not None,
        found.rooms is not None,
        redises is not None and all(one and one.waits for one in redises.values()),
        found.findings is not None,
    )


def _waits(found: Gathered) -> Iterator[Sample]:
    if found.waits is None:
        return
    rows: Counter[str] = Counter(sharded=0, slotted=0)
    counters: Counter[str] = Counter(sharded=0, slotted=0)
    for finding in found.waits:
        # What waits for the entries of a ledger, or for Redis, is told with those.
        rows[finding.strategy] += finding.rows
        counters[finding.strategy] += finding.counters
    if found.ledger is not None:
        rows["ledger"] += found.ledger.entries
        counters["ledger"] += found.ledger.counters
    for strategy, number in rows.items():
        yield Sample(names.PENDING_ROWS, (found.using, strategy), number)
        yield Sample(names.PENDING_COUNTERS, (found.using, strategy, ""), counters[strategy])


def _ledger(found: Gathered) -> Iterator[Sample]:
    ledger, labels = found.ledger, (found.using,)
    if ledger is None:
        return
    yield Sample(names.FENCED, labels, bool(ledger.fenced))
    if ledger.lag is not None:
        yield Sample(names.ROLLUP_LAG, labels, ledger.lag.total_seconds())
    if ledger.partitions_ahead is not None:
        yield Sample(names.PARTITIONS, labels, ledger.partitions_ahead)


def _incidents(found: Gathered) -> Iterator[Sample]:
    if found.incidents is None:
        return
    numbers = {one.kind: one.number for one in found.incidents}
    for kind in {**dict.fromkeys(CounterIncident.Kind.values, 0), **numbers}:
        yield Sample(names.INCIDENTS, (found.using, kind), numbers.get(kind, 0))


def _redis(using: str, name: str, asked: Asked | None) -> Iterator[Sample]:
    labels = (using, name)
    waits = asked.waits if asked else None
    yield Sample(names.REDIS_UP, labels, waits is not None)
    if asked and asked.source.pending and (now := asked.source.pending.breaker()):
        for state in STATES:
            yield Sample(names.BREAKER, (*labels, state), state == now)
    if waits is None:
        return
    lag = (clock.utc() - waits.since).total_seconds() if waits.since else 0.0
    yield Sample(names.FLUSH_LAG, labels, max(lag, 0.0))
    yield Sample(names.PENDING_GENERATIONS, labels, waits.generations)
    yield Sample(names.PENDING_COUNTERS, (using, "cached", name), waits.counters)
