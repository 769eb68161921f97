"""What becomes of the entries of the ledger: they are read, rolled up, sealed and dropped."""

from __future__ import annotations

import time
from collections.abc import (
    Callable,
    Iterator,
    Mapping,
)
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import count

from django.db import connection

from benchmarks.harness import (
    Pair,
    Sample,
    Work,
    WrongSum,
    expect,
    loops,
    remain,
)
from benchmarks.inspection import (
    execute,
    let_others_end,
    value,
)
from django_counters.ledger.partitions import SqlPartitions
from django_counters.ledger.sql import Extent
from django_counters.models import (
    Counter,
    CounterArchive,
    CounterDelta,
    CounterHorizon,
    CounterPartition,
)
from django_counters.upkeep import rollup

COUNTERS = 1000
ROLLED_UP = 1_000_000  # entries
IN_PARTITION = 500_000  # entries
BATCH = 10_000  # entries of one transaction
THOUSAND = 1000  # entries are what a rollup is measured by
DAY = timedelta(days=1)
LONG_AGO = datetime(1990, 1, 1, tzinfo=UTC)
TOTALS, ENTRIES = Counter._meta.db_table, CounterDelta._meta.db_table
_days = count()


def _roll_up() -> None:
    """Let no entry wait."""
    let_others_end()
    expect("entries that wait", rollup().waiting, 0)


@contextmanager
def reading(tail: int) -> Iterator[Pair]:
    """A counter with so many entries that are not rolled up, and one that has no entries."""
    mine, theirs = f"orders:read{tail}", f"views:read{tail}"
    CounterDelta.objects.append(mine, 1)
    Counter.objects.increment(theirs)
    _roll_up()
    if tail:
        CounterDelta.objects.append_many([(mine, 1)] * tail)

    def pending() -> int:
        return Counter.objects.read(mine).pending

    known = (value(mine), 1 + tail), (pending, tail), (value(theirs), 1)
    yield loops(value(mine), value(theirs), remain(*known))


@contextmanager
def folding(entries: int) -> Iterator[Pair]:
    """The same entries again and again: before each rollup the horizon goes back to before them.

    No VACUUM has seen them: a rollup that runs every few seconds is there before it.
    """
    _roll_up()
    execute(f"TRUNCATE {ENTRIES}")
    _vacuum("off")
    before = CounterHorizon.objects.get().horizon
    batch = [(f"orders:folded{number % COUNTERS}", 1) for number in range(BATCH)]
    for _ in range(entries // BATCH):
        CounterDelta.objects.append_many(batch)
    execute(f"ANALYZE {ENTRIES}, {TOTALS}")
    let_others_end()

    def fold() -> Sample:
        CounterHorizon.objects.update(horizon=before)
        started = time.perf_counter()
        report = rollup()
        seconds = time.perf_counter() - started
        expect("entries that were folded", report.entries, entries)
        return Sample(entries // THOUSAND, seconds)

    def verify(subject: int, _: int) -> None:
        expect("the totals", _total("folded"), THOUSAND * subject)

    yield Pair(fold, lambda: Sample(entries // THOUSAND, _summed(ENTRIES, entries)), verify)
    execute(f"TRUNCATE {ENTRIES}")
    _vacuum("on")


def _vacuum(switch: str) -> None:
    """Let autovacuum see to the ledger, or leave it alone."""
    for extent in SqlPartitions("default").present():
        execute(f"ALTER TABLE {extent.name} SET (autovacuum_enabled = {switch})")


def _total(what: str) -> int:
    """What is rolled up of the counters of a case."""
    return execute(
        f"SELECT COALESCE(SUM(value), 0)::bigint FROM {TOTALS} WHERE key LIKE 'orders:{what}%'"
    )


def _summed(table: str, entries: int) -> float:
    """How long the least takes that a rollup or a seal has to do."""
    with connection.cursor() as cursor:
        started = time.perf_counter()
        cursor.execute(f"SELECT key, SUM(delta) FROM {table} GROUP BY key")
        rows = cursor.fetchall()
        seconds = time.perf_counter() - started
    expect(table, sum(int(row[1]) for row in rows), entries)
    return seconds


def _partition(what: str, entries: int) -> Extent:
    """An old partition full of entries that are rolled up."""
    since = LONG_AGO + next(_days) * DAY
    name = SqlPartitions("default").create(since, since + DAY)
    # To drop one gives up where it would have to wait, also for autovacuum.
    execute(f"ALTER TABLE {name} SET (autovacuum_enabled = off)")
    execute(
        f"INSERT INTO {name} (token, created_at, key, delta) SELECT gen_random_uuid(), "
        f"'{since}'::timestamptz + n * interval '1 ms', 'orders:{what}' || n % {COUNTERS}, 1 "
        f"FROM generate_series(1, {entries}) n"
    )
    execute(f"VACUUM ANALYZE {name}")
    # A rollup leaves entries out that are older than any token may be.
    CounterHorizon.objects.update(tail_since=since)
    _roll_up()
    return Extent(name, since, since + DAY)


def _sealed(extent: Extent) -> CounterPartition:
    store = SqlPartitions("default")
    if not store.seal(extent):
        raise WrongSum(f"{extent.name} is not rolled up")
    return store.sealed()[extent.name]


def _dropped(entries: int) -> Sample:
    record = _sealed(_partition("dropped", entries))
    started = time.perf_counter()
    SqlPartitions("default").drop(record.name)
    return Sample(1, time.perf_counter() - started)


def _removed(entries: int) -> Sample:
    """The same files gone by the least that removes them: what was in them is lost."""
    name = _partition("removed", entries).name
    started = time.perf_counter()
    execute(f"DROP TABLE {name}")
    return Sample(1, time.perf_counter() - started)


@contextmanager
def dropping(entries: int) -> Iterator[Pair]:
    """Two partitions alike, new ones for each slice."""
    before = len(SqlPartitions("default").present())

    def verify(subject: int, reference: int) -> None:
        expect("the totals of what was dropped", _total("dropped"), subject * entries)
        expect("the totals of what was removed", _total("removed"), reference * entries)
        archived = CounterArchive.objects.filter(partition="", key__startswith="orders:dropped")
        expect("the archive", sum(row.entries for row in archived), subject * entries)
        expect("sealed partitions", len(SqlPartitions("default").sealed()), 0)
        expect("partitions", len(SqlPartitions("default").present()), before)

    yield Pair(partial(_dropped, entries), partial(_removed, entries), verify)


def _whole(prepare: Callable[[int], AbstractContextManager[Pair]], entries: int, less: int) -> Work:
    """A slice is one rollup or one partition: where time is short, of that part of the entries."""
    return Work(partial(prepare, entries), slices=1, less=partial(prepare, entries // less))


CASES: Mapping[str, Work] = {
    "tail100": Work(partial(reading, 100)),
    "fold": _whole(folding, ROLLED_UP, 5),
    "drop": _whole(dropping, IN_PARTITION, 20),
}
