"""Appending to the ledger: its statement, its transactions, its batches, and its tokens."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import count, cycle
from uuid import UUID, uuid4

from django.db import connection, transaction

from benchmarks import pgbench
from benchmarks.cases.spread import BRIEF, HOLD, PROCESSES, WITHOUT, transactions
from benchmarks.cases.statements import Load, Way, alone, driven, exact
from benchmarks.harness import Case, Pair, Sample, at_least, at_most, expect, loop
from benchmarks.inspection import execute, holds, statement_of
from django_counters import clock
from django_counters.models import Counter, CounterDelta
from django_counters.tokens import mint, moment_of

BATCH = 1000  # entries
KEYS = 100  # counters of a batch
SLICE = 100  # calls of one slice
HOT = "orders:process"
ENTRIES = CounterDelta._meta.db_table
# What the library sends by COPY: the other columns have defaults.
COPY = f"COPY {ENTRIES} (token, created_at, key, delta) FROM STDIN"
_numbers = count()

Entry = tuple[UUID, object, str, int]


def appended() -> Way:
    """An entry, through the library."""
    key = f"orders:hot{next(_numbers)}"
    sent = pgbench.written_out(*statement_of(lambda: CounterDelta.objects.append(key, 1)))
    return Way(key, sent, lambda: Counter.objects.value(key))


def upsert() -> Way:
    """The least that adds to one row: a key, a value, one statement."""
    table = f"upsert_{next(_numbers)}"
    execute(f"CREATE TABLE {table} (key varchar(200) PRIMARY KEY, value bigint NOT NULL)")
    sent = (
        f"INSERT INTO {table} AS t (key, value) VALUES ('hot', 1) "
        "ON CONFLICT (key) DO UPDATE SET value = t.value + EXCLUDED.value RETURNING value;"
    )
    return Way(table, sent, lambda: execute(f"SELECT COALESCE(SUM(value), 0)::bigint FROM {table}"))


def count_entry() -> None:
    """Counts first, in an entry of its own."""
    with transaction.atomic():
        Counter.objects.increment(HOT)
        time.sleep(HOLD)


def _entries(name: str) -> list[tuple[str, int]]:
    """A batch of ones, of counters that are in the ledger already."""
    batch = [(f"orders:{name}{number % KEYS}", 1) for number in range(BATCH)]
    CounterDelta.objects.append_many(batch)
    return batch


def _adds_up(name: str, counted: int) -> None:
    """Raise `WrongSum` unless the counters of a batch have what was counted since it was made."""
    keys = [f"orders:{name}{number}" for number in range(KEYS)]
    expect(name, sum(Counter.objects.values_of(keys).values()), BATCH + counted)


@contextmanager
def many() -> Iterator[Pair]:
    """Batches, and the same entries one by one."""
    mine, theirs = _entries("batch"), cycle(_entries("single"))

    def verify(subject: int, reference: int) -> None:
        _adds_up("batch", subject)
        _adds_up("single", reference)

    yield Pair(
        loop(lambda: CounterDelta.objects.append_many(mine), 5, BATCH),
        loop(lambda: CounterDelta.objects.append(*next(theirs)), SLICE),
        verify,
    )


@contextmanager
def copying(beforehand: bool) -> Iterator[Pair]:
    """Batches by COPY, as the library does it and as one writes it with the driver.

    ``beforehand``: the rows of the driver, with their tokens, are there when the clock starts.
    """
    copied, raw = f"copied-{beforehand}-", f"raw-{beforehand}-"
    mine, theirs = _entries(copied), _entries(raw)

    def write() -> Sample:
        rows = _rows(theirs) if beforehand else None
        return loop(lambda: _copy(rows or _rows(theirs)), 1, BATCH)()

    def verify(subject: int, reference: int) -> None:
        _adds_up(copied, subject)
        _adds_up(raw, reference)

    yield Pair(
        loop(lambda: CounterDelta.objects.append_many(mine, copy=True), 1, BATCH), write, verify
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


def uuids(number: int) -> list[UUID | str]:
    """Tokens that carry their time."""
    now = clock.utc()
    return [mint(now) for _ in range(number)]


def texts(number: int) -> list[UUID | str]:
    """Tokens that are kept in a table of their own."""
    return [f"order {uuid4()}" for _ in range(number)]


@contextmanager
def replaying(make: Callable[[int], list[UUID | str]]) -> Iterator[Pair]:
    """The same tokens again and again, and such that nobody has used."""
    mine, theirs = f"orders:old-{make.__name__}", f"orders:new-{make.__name__}"
    used = make(SLICE)
    for token in used:
        Counter.objects.increment(mine, token=token)
    again = cycle(used)

    def fresh() -> Sample:
        unused = iter(make(SLICE))
        return loop(lambda: Counter.objects.increment(theirs, token=next(unused)), SLICE)()

    def verify(_: int, reference: int) -> None:
        holds(mine, SLICE)  # whatever was replayed
        holds(theirs, reference)

    yield Pair(
        loop(lambda: Counter.objects.increment(mine, token=next(again)), SLICE), fresh, verify
    )


FIRST = "append, 16 clients, first in 2 ms"
ALONE = "append, 16 clients, autocommit"
COPIED = "append_many(copy=True) of 1,000, per entry"

# Those that pgbench drives.
STATEMENTS: Sequence[Case] = (
    driven(
        "append",
        (ALONE, "upsert of one row"),
        at_least(4.5),
        Load(appended, alone),
        Load(upsert, alone),
    ),
    driven(
        "append-first",
        (FIRST, "upsert of one row, first in 2 ms"),
        at_least(12),
        Load(appended),
        Load(upsert),
    ),
    driven(
        "append-exact",
        (ALONE, "one exact row"),
        None,
        Load(appended, alone),
        Load(exact, alone),
    ),
    driven(
        "append-exact-first",
        (FIRST, "one exact row, first in 2 ms"),
        None,
        Load(appended),
        Load(exact),
    ),
)

CASES: Sequence[Case] = (
    *STATEMENTS,
    Case(
        "ledger",
        f"ledger, {PROCESSES} processes, first in 2 ms",
        WITHOUT,
        at_least(0.7),
        transactions(count_entry, lambda: Counter.objects.value(HOT)),
        slices=2,
        less=transactions(count_entry, lambda: Counter.objects.value(HOT), seconds=BRIEF),
    ),
    Case("append-many", "append_many of 1,000, per entry", "append", at_least(14), many),
    Case(
        "append-copy",
        COPIED,
        "COPY with write_row, tokens made as it goes",
        at_least(0.7),
        partial(copying, False),
    ),
    Case(
        "append-copy-rows",
        COPIED,
        "COPY with write_row, rows made beforehand",
        None,
        partial(copying, True),
    ),
    Case(
        "replay",
        "increment with a token that was used",
        "with a new token",
        at_most(2),
        partial(replaying, uuids),
    ),
    Case(
        "replay-text",
        "increment with a text that was used",
        "with a new text",
        at_most(2),
        partial(replaying, texts),
    ),
)
