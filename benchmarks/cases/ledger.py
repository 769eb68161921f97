"""Appending to the ledger: its statement, its transactions, its batches, and its tokens."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import count, cycle
from uuid import UUID

from django.db import connection

from benchmarks import pgbench
from benchmarks.cases.spread import named
from benchmarks.cases.statements import Load, Way, alone, driven, updated
from benchmarks.harness import (
    Pair,
    Sample,
    Work,
    adds_up,
    expect,
    lasting,
    loop,
)
from benchmarks.inspection import (
    execute,
    statement_of,
    value,
)
from django_counters import clock
from django_counters.models import Counter, CounterDelta
from django_counters.tokens import mint, moment_of

BATCH = 1000  # entries
KEYS = 100  # counters of a batch
SLICE = 100  # calls of one slice
ENTRIES = CounterDelta._meta.db_table
# What the library sends by COPY: the other columns have defaults.
COPY = f"COPY {ENTRIES} (token, created_at, key, delta) FROM STDIN"
_numbers = count()

Entry = tuple[UUID, object, str, int]


def appended() -> Way:
    """An entry, through the library."""
    key = f"orders:hot{next(_numbers)}"
    sent = pgbench.written_out(*statement_of(lambda: CounterDelta.objects.append(key, 1)))
    return Way(key, sent, value(key))


def upsert() -> Way:
    """The least that adds to one row: a key, a value, one statement."""
    table = f"upsert_{next(_numbers)}"
    execute(f"CREATE TABLE {table} (key varchar(200) PRIMARY KEY, value bigint NOT NULL)")
    sent = (
        f"INSERT INTO {table} AS t (key, value) VALUES ('hot', 1) "
        "ON CONFLICT (key) DO UPDATE SET value = t.value + EXCLUDED.value RETURNING value;"
    )
    return Way(table, sent, lambda: execute(f"SELECT COALESCE(SUM(value), 0)::bigint FROM {table}"))


def _entries(name: str) -> list[tuple[str, int]]:
    """A batch of ones, of counters that are in the ledger already."""
    batch = [(f"orders:{name}{number % KEYS}", 1) for number in range(BATCH)]
    CounterDelta.objects.append_many(batch)
    return batch


def _sum(name: str) -> int:
    """What the counters of a batch have."""
    return sum(Counter.objects.values_of([f"orders:{name}{n}" for n in range(KEYS)]).values())


@contextmanager
def many() -> Iterator[Pair]:
    """Batches, and the same entries one by one."""
    mine, theirs = _entries("batch"), cycle(_entries("single"))
    yield Pair(
        loop(lambda: CounterDelta.objects.append_many(mine), 5, BATCH),
        loop(lambda: CounterDelta.objects.append(*next(theirs)), SLICE),
        adds_up(partial(_sum, "batch"), partial(_sum, "single")),
    )


@contextmanager
def copying() -> Iterator[Pair]:
    """Batches by COPY, as the library does it and as one writes it with the driver."""
    mine, theirs = _entries("copied"), _entries("raw")
    yield Pair(
        loop(lambda: CounterDelta.objects.append_many(mine, copy=True), 1, BATCH),
        loop(lambda: _copy(_rows(theirs)), 1, BATCH),
        adds_up(partial(_sum, "copied"), partial(_sum, "raw")),
    )


def _rows(entries: Sequence[tuple[str, int]]) -> list[Entry]:
    """Entries with tokens and times that are made as the library makes them."""
    now = clock.utc()
    created_at = moment_of(mint(now))
    return [(mint(now), created_at, key, delta) for key, delta in entries]


def _copy(rows: Sequence[Entry]) -> None:
    """COPY as the manual of the driver shows it."""
    connection.ensure_connection()
    with connection.connection.cursor() as cursor, cursor.copy(COPY) as copy:
        for row in rows:
            copy.write_row(row)


def _tokens() -> list[UUID]:
    """Tokens that carry their time."""
    now = clock.utc()
    return [mint(now) for _ in range(SLICE)]


@contextmanager
def replaying() -> Iterator[Pair]:
    """The same tokens again and again, and such that nobody has used."""
    mine, theirs = "orders:old", "orders:new"
    used = _tokens()
    for token in used:
        Counter.objects.increment(mine, token=token)
    again = cycle(used)

    def fresh() -> Sample:
        unused = iter(_tokens())
        return loop(lambda: Counter.objects.increment(theirs, token=next(unused)), SLICE)()

    def verify(_: int, reference: int) -> None:
        expect("what was replayed", Counter.objects.value(mine), SLICE)
        expect("what was new", Counter.objects.value(theirs), reference)

    yield Pair(
        loop(lambda: Counter.objects.increment(mine, token=next(again)), SLICE), fresh, verify
    )


CASES: Mapping[str, Work] = {
    "append": driven(Load(appended, alone), Load(upsert, alone)),
    "f-append": driven(Load(appended, alone), Load(updated, alone)),
    "append-first": driven(Load(appended), Load(upsert)),
    "ledger": lasting(partial(named, "orders")),
    "append-many": Work(many),
    "append-copy": Work(copying),
    "replay": Work(replaying),
}
