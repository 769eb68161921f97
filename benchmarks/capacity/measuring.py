"""Measures the unit costs: all ways in turn within a round, as often as there are rounds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from django.db import connection

from benchmarks import machine, pgbench
from benchmarks.capacity.costs import Capacity, Cost, Figure, NotMeasured, Span
from benchmarks.capacity.meter import Meter, Spent
from benchmarks.capacity.sizes import sizes
from benchmarks.capacity.ways import Way, after_checkpoint, verify, ways
from benchmarks.cases.cached import client, location
from benchmarks.cases.ledger import appended
from benchmarks.cases.statements import Way as Script
from benchmarks.cases.statements import alone, exact, first, sharded
from benchmarks.harness import MIN_ROUNDS, Effort, Sample, expect
from benchmarks.inspection import execute
from example_project.bootstrap import children

CLIENTS = 16
REWRITTEN_WITHIN = 60.0
SYNCED = {
    True: "SELECT COALESCE(SUM(fsyncs), 0)::bigint FROM pg_stat_io WHERE object = 'wal'",
    False: "SELECT wal_sync FROM pg_stat_wal",  # before PostgreSQL 18
}

Progress = Callable[[str], None]


def measured(effort: Effort, progress: Progress) -> Capacity:
    """All unit costs; see `benchmarks.capacity.measure`."""
    if effort.rounds < MIN_ROUNDS:
        raise ValueError(f"{effort.rounds} rounds are too few, {MIN_ROUNDS} are needed")
    pgbench.find()  # better now than after some minutes
    with client() as server, _logged(server):
        costs = costs_of(Meter(server), effort, progress)
        figures = [*rates(effort, progress), *sizes(effort, progress)]
        present = {**machine.present().fields(), **_redis(server), "rounds": effort.rounds}
    return Capacity(present, tuple(costs), tuple(figures))


def costs_of(meter: Meter, effort: Effort, progress: Progress) -> list[Cost]:
    """What each way takes; what it has counted is looked for at the end."""
    return [
        cost
        for group in (ways(), after_checkpoint())
        for cost in _compared(group, meter, effort, progress)
    ]


def _compared(
    group: Sequence[Way], meter: Meter, effort: Effort, progress: Progress
) -> Iterator[Cost]:
    told: dict[str, list[Spent]] = {way.name: [] for way in group}
    for number in range(effort.rounds + 1):
        for way in group if number % 2 else reversed(group):
            progress(f"capacity: {way.name}, {_round(number, effort)}")
            told[way.name].append(way.slice(meter, effort.share))
    for way in group:
        verify(way, sum(spent.operations for spent in told[way.name]))
        yield _cost(way, told[way.name][1:])


def _round(number: int, effort: Effort) -> str:
    return f"round {number} of {effort.rounds}" if number else "warm-up"


def _cost(way: Way, rounds: Sequence[Spent]) -> Cost:
    return Cost(
        way.name,
        way.words,
        Span.of([one.client / one.operations for one in rounds]),
        _span([(one.database, one.operations) for one in rounds]),
        Span.of([one.redis / one.operations for one in rounds]),
        Span.of([one.wal / one.operations for one in rounds]),
        _span([(one.log, one.operations) for one in rounds]),
        Span.of([one.seconds / one.operations for one in rounds]),
    )


def _span(told: Sequence[tuple[float | None, int]]) -> Span | None:
    """What some rounds have told; None where one of them could not tell."""
    known = [spent / operations for spent, operations in told if spent is not None]
    return Span.of(known) if len(known) == len(told) else None


@dataclass(frozen=True)
class Crowd:
    """Some clients that count in one counter: in which, and where in a transaction."""

    name: str
    words: str
    script: Script
    form: Callable[[Script], str]


@dataclass(frozen=True)
class Driven:
    """What a crowd did, and how often the log was forced to the disk meanwhile."""

    sample: Sample
    synced: int


def rates(effort: Effort, progress: Progress) -> Iterator[Figure]:
    """What one counter takes when so many clients count nothing else."""
    crowds = _crowds()
    before = {crowd.name: crowd.script.stored() for crowd in crowds}
    told: dict[str, list[Driven]] = {crowd.name: [] for crowd in crowds}
    for number in range(effort.rounds):
        for crowd in crowds:
            progress(f"capacity: {crowd.name}, {_round(number + 1, effort)}")
            told[crowd.name].append(_driven(crowd))
    for crowd in crowds:
        counted = sum(one.sample.operations for one in told[crowd.name])
        expect(crowd.words, crowd.script.stored() - before[crowd.name], counted)
        rate = Span.of([1 / one.sample.cost for one in told[crowd.name]])
        yield Figure(crowd.name, f"{crowd.words}, {CLIENTS} clients", "a second", rate)
    words = f"commits that share a write to the disk, ledger, {CLIENTS} clients"
    shared = [one.sample.operations / max(1, one.synced) for one in told["rate-ledger"]]
    yield Figure("commits-a-sync", words, "commits", Span.of(shared))


def _crowds() -> list[Crowd]:
    return [
        Crowd("rate-exact", "one exact counter, autocommit", exact(), alone),
        Crowd("rate-held", "one exact counter, first in 2 ms", exact(), first),
        Crowd("rate-sharded", "one sharded counter, autocommit", sharded(), alone),
        Crowd("rate-ledger", "one counter of a ledger, autocommit", appended(), alone),
    ]


def _driven(crowd: Crowd) -> Driven:
    before = _synced()
    sample = pgbench.side(crowd.form(crowd.script), CLIENTS)()
    return Driven(sample, _synced() - before)


def _synced() -> int:
    """How often the write-ahead log was forced to the disk, as far as it is known yet."""
    connection.ensure_connection()
    return execute(SYNCED[connection.connection.info.server_version >= 180000])


@contextmanager
def _logged(server: Any) -> Iterator[None]:
    """Let a Redis of our own write an append-only file, as one does that counts."""
    if not location().startswith("unix:") or server.info("persistence")["aof_enabled"]:
        yield
        return
    server.config_set("appendonly", "yes")
    if not children.until(lambda: not _rewrites(server), REWRITTEN_WITHIN):
        raise NotMeasured("Redis does not come to write its append-only file")
    try:
        yield
    finally:
        server.config_set("appendonly", "no")


def _rewrites(server: Any) -> bool:
    known = server.info("persistence")
    return bool(known["aof_rewrite_in_progress"] or known["aof_rewrite_scheduled"])


def _redis(server: Any) -> dict[str, str]:
    known = server.info("server")
    name = "Valkey" if "valkey_version" in known else "Redis"
    version = known.get("valkey_version", known["redis_version"])
    logs = server.info("persistence")["aof_enabled"]
    synced = server.config_get("appendfsync")["appendfsync"]
    form = f"with an append-only file, {synced}" if logs else "without an append-only file"
    return {"redis": f"{name} {version} {form}"}
