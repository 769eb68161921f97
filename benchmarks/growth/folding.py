"""The flush and the rollup, where ever more waits for them."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import count

from django.db import connection, transaction

from benchmarks.cases.flush import flushed
from benchmarks.curves import Growth
from benchmarks.growth.measuring import (
    FEW_ROUNDS,
    Label,
    Plan,
    Sides,
    measured,
    microseconds,
)
from benchmarks.harness import Sample, expect
from benchmarks.inspection import execute, let_others_end
from django_counters.models import Counter, CounterDelta, CounterHorizon
from django_counters.stores.sql.dialects import dialect_of
from django_counters.stores.sql.named import NAMED
from django_counters.upkeep.flush import LARGEST, flush
from django_counters.upkeep.rollup import rollup

SIZES = (1000, 10_000, 100_000, 1_000_000)
COUNTERS = 1000  # of the ledger
BATCH = 10_000  # entries of one transaction
TOTALS, ENTRIES = Counter._meta.db_table, CounterDelta._meta.db_table
_numbers = count()


@contextmanager
def flushing(counters: int) -> Iterator[Sides]:
    """So many counters with an increment of each, and the bare upsert of as many rows."""
    flush()  # what others have left
    mine, theirs = (f"pages:{what}{next(_numbers)}:" for what in ("grown", "bare"))
    keys, bare = ([f"{name}{number}" for number in range(counters)] for name in (mine, theirs))
    batches = [bare[at : at + LARGEST] for at in range(0, counters, LARGEST)]

    def verify(counted: Sequence[int]) -> None:
        for name, so_many in zip((mine, theirs), counted, strict=True):
            _adds_up(name, so_many)

    yield Sides([partial(flushed, keys), partial(_upserted, batches)], verify)


def _upserted(batches: Sequence[list[str]]) -> Sample:
    """What the flush executes, from lists that are there."""
    sql = dialect_of("default").totals(NAMED.quoted(connection.ops.quote_name)).add_many
    started = time.perf_counter()
    for keys in batches:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(sql, (keys, [1] * len(keys)))
            cursor.fetchall()
    return Sample(sum(map(len, batches)), time.perf_counter() - started)


def _adds_up(name: str, counted: int) -> None:
    """Raise `WrongSum` unless so much is in the totals of the counters that begin so."""
    sums = f"SELECT COALESCE(SUM(value), 0)::bigint FROM {TOTALS} WHERE key LIKE '{name}%'"
    expect(name, execute(sums), counted)


@contextmanager
def rolling_up(entries: int) -> Iterator[Sides]:
    """The same entries again and again: before each rollup the horizon goes back to before them."""
    _roll_up()
    execute(f"TRUNCATE {ENTRIES}")
    before = CounterHorizon.objects.get().horizon
    namespace = f"orders:grown{next(_numbers)}:"
    _append(namespace, entries)
    execute(f"VACUUM ANALYZE {ENTRIES}, {TOTALS}")

    def fold() -> Sample:
        CounterHorizon.objects.update(horizon=before)
        let_others_end()
        started = time.perf_counter()
        report = rollup()
        seconds = time.perf_counter() - started
        expect("entries that were folded", report.entries, entries)
        return Sample(entries, seconds)

    summed = partial(_summed, entries)
    yield Sides([fold, summed], lambda counted: _adds_up(namespace, counted[0]))
    execute(f"TRUNCATE {ENTRIES}")


def _roll_up() -> None:
    """Let no entry wait."""
    let_others_end()
    expect("entries that wait", rollup().waiting, 0)


def _append(namespace: str, entries: int) -> None:
    size = min(entries, BATCH)
    batch = [(f"{namespace}{number % COUNTERS}", 1) for number in range(size)]
    for _ in range(entries // size):
        CounterDelta.objects.append_many(batch, copy=True)


def _summed(entries: int) -> Sample:
    """The least that a rollup has to do, its answer included."""
    with connection.cursor() as cursor:
        started = time.perf_counter()
        cursor.execute(f"SELECT key, SUM(delta) FROM {ENTRIES} GROUP BY key")
        rows = cursor.fetchall()
        seconds = time.perf_counter() - started
    expect("the sums", sum(int(row[1]) for row in rows), entries)
    return Sample(entries, seconds)


FLUSHING = Plan(
    "flush-size",
    (Label("flush"), Label("bare upsert of as many rows", reference=True)),
    SIZES,
    flushing,
    microseconds,
    few_from=SIZES[-1],
)
ROLLING_UP = Plan(
    "rollup-size",
    (Label("rollup of the ledger"), Label("SELECT key, SUM(delta) … GROUP BY key", reference=True)),
    SIZES,
    rolling_up,
    microseconds,
)

GROWTHS: Sequence[Growth] = (
    Growth(
        FLUSHING.name,
        "A flush of cached counters",
        "counters that have changed",
        "µs per counter",
        durable=True,
        measure=partial(measured, FLUSHING),
        note=(
            "Each counter has changed once since the flush before. The reference is the statement "
            "of the flush with rows that are there already, in transactions of the same size. A "
            "flush looks at all slots of Redis, whatever is in them, and commits at least once: "
            f"with few counters this is most of its time. {FEW_ROUNDS} rounds at the greatest size."
        ),
    ),
    Growth(
        ROLLING_UP.name,
        f"A rollup of the ledger into {COUNTERS:,} counters",
        "entries that wait",
        "µs per entry",
        durable=True,
        measure=partial(measured, ROLLING_UP),
        note=(
            "Both read the same entries, which a VACUUM has seen. With few entries the cost of an "
            f"entry is that of writing {COUNTERS:,} totals and of a commit, which is the same "
            "however many entries there are."
        ),
    ),
)
