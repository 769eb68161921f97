"""Measures the unit costs: all ways in turn within a round, as often as there are rounds."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any

from benchmarks.capacity.meter import Meter, Spent
from benchmarks.capacity.ways import Way, rows, ways
from benchmarks.cases.cached import client, location, prefix
from benchmarks.harness import Effort, WrongSum, expect
from benchmarks.inspection import execute
from benchmarks.scaling import PARTS
from django_counters.cached.flush import flush
from django_counters.cached.sources import slots_of
from django_counters.models import Counter, CounterDelta
from django_counters.redis.keys import SLOTS
from example_project.bootstrap import children

REWRITTEN_WITHIN = 60.0
THINGS = 10_000  # of a size: Redis keeps a few hundred fields of a hash in a smaller form than many
PAGE = 1000  # of one call
TOTALS = f"SELECT pg_total_relation_size('{Counter._meta.db_table}')"
PARTITIONS = (
    "SELECT SUM(pg_total_relation_size(relid))::bigint "
    f"FROM pg_partition_tree('{CounterDelta._meta.db_table}')"
)

Span = dict[str, float]


def measured(effort: Effort) -> dict[str, Any]:
    """Measure the unit costs on the servers that the connection and the cache lead to.

    The write-ahead log of a database whose commits do not wait for the disk is not what it is
    elsewhere: use a durable one. A Redis on a unix socket writes an append-only file meanwhile.
    """
    with client() as server, _logged(server):
        log = server.config_get("appendfsync")["appendfsync"]
        on = server.info("persistence")["aof_enabled"]
        return {
            "costs": costs(Meter(server), ways(), effort),
            "sizes": sizes(effort),
            "rounds": effort.rounds,
            "log": log if on else "none",
        }


def costs(meter: Meter, group: Sequence[Way], effort: Effort) -> list[dict[str, Any]]:
    """What each way takes; what it has counted is looked for at the end."""
    told: dict[str, list[Spent]] = {way.name: [] for way in group}
    for number in range(effort.rounds + 1):
        for way in group if number % 2 else reversed(group):
            told[way.name].append(way.slice(meter, effort.share))
    for way in group:
        expect(way.name, way.stored(), sum(spent.operations for spent in told[way.name]))
    return [_cost(way, told[way.name][1:]) for way in group]


def _cost(way: Way, rounds: Sequence[Spent]) -> dict[str, Any]:
    spans = {name: _span([one.each[name] for one in rounds]) for name, *_ in PARTS}
    return {"name": way.name, "words": way.words, **spans}


def _span(told: Sequence[float | None]) -> Span | None:
    """What some rounds have told; None where one of them could not tell."""
    known = [number for number in told if number is not None]
    if len(known) < len(told):
        return None
    return {"median": statistics.median(known), "min": min(known), "max": max(known)}


def sizes(effort: Effort) -> list[dict[str, Any]]:
    """What one of each takes, as much as it grew by so many."""
    told: dict[str, list[float]] = {
        "an entry of a ledger, with its indexes": [],
        "a named counter, with its index": [],
        "a counter that waits in Redis": [],
        "a total that Redis has to answer with": [],
    }
    for _ in range(effort.rounds):
        for found, size in zip(told.values(), _sizes(), strict=True):
            found.append(size / THINGS)
    return [{"words": words, **(_span(found) or {})} for words, found in told.items()]


def _sizes() -> Iterator[float]:
    yield _grown(PARTITIONS, "orders", _append)
    yield _grown(TOTALS, "views", _count)
    flush()
    before = _memory()
    for page in _pages("pages"):
        _count(page)
        Counter.objects.values_of(page, consistency="cached")  # whoever reads leaves the total
    for now, then in zip(_memory(), before, strict=True):
        yield now - then
    flush()


def _grown(sql: str, space: str, add: Callable[[Sequence[str]], object]) -> int:
    before = execute(sql)
    for page in _pages(space):
        add(page)
    return execute(sql) - before


def _append(keys: Sequence[str]) -> None:
    CounterDelta.objects.append_many([(key, 1) for key in keys])


def _count(keys: Sequence[str]) -> None:
    Counter.objects.increment_many(dict.fromkeys(keys, 1))


def _pages(space: str) -> Iterator[Sequence[str]]:
    rest = iter(rows(space, "size", THINGS))
    while page := list(islice(rest, PAGE)):
        yield page


def _memory() -> tuple[int, int]:
    """Bytes of all generations, and of all known totals."""
    slots = slots_of("default", prefix())
    with client() as server:

        def taken(key: str) -> int:
            return int(server.memory_usage(key, samples=0) or 0)

        every = [slots.keys(slot) for slot in range(SLOTS)]
        pending = sum(taken(key) for one in every for key in (one[0], *one[2:]))
        return pending, sum(taken(one[1]) for one in every)


@contextmanager
def _logged(server: Any) -> Iterator[None]:
    """Let a Redis of our own write an append-only file, as one does that counts."""
    if not location().startswith("unix:") or server.info("persistence")["aof_enabled"]:
        yield
        return
    server.config_set("appendonly", "yes")
    if not children.until(lambda: not _rewrites(server), REWRITTEN_WITHIN):
        raise WrongSum("Redis does not come to write its append-only file")
    try:
        yield
    finally:
        server.config_set("appendonly", "no")


def _rewrites(server: Any) -> bool:
    known = server.info("persistence")
    return bool(known["aof_rewrite_in_progress"] or known["aof_rewrite_scheduled"])
