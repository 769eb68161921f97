"""The statements that the library sends, driven by pgbench: what rows and their locks cost.

Each way of counting has one hot counter. Most cases put the statement into a transaction that
lasts two milliseconds and counts first, so that all that it locks is held meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import count

from django.db.models import F

from benchmarks import pgbench
from benchmarks.harness import (
    BRIEF,
    Pair,
    Work,
    adds_up,
)
from benchmarks.inspection import (
    execute,
    increment,
    statement_of,
    value,
)
from benchmarks.models import NaiveCounter, Post
from django_counters.models import Counter, SlottedCounter

HOLD = r"\sleep 2 ms"
_numbers = count()


@dataclass(frozen=True)
class Way:
    """One way of counting: what to send, and how to ask what was counted."""

    name: str
    statements: str
    stored: Callable[[], int]


def exact() -> Way:
    """One row, through the library."""
    return _named("views")


def sharded() -> Way:
    """As many shards as the writers need, through the library."""
    return _named("spread")


def with_cells() -> Way:
    """As many shards as the writers need, and cells of each: hour and day, one tag."""
    return _named("clicks", partial(Counter.objects.increment, tags={"country": "DE"}))


def _named(namespace: str, count: Callable[[str], object] = increment) -> Way:
    key = f"{namespace}:hot{next(_numbers)}"
    for _ in range(2):
        count(key)  # a tag that is new is written down, then read
    sent = pgbench.written_out(*statement_of(partial(count, key)))
    return Way(key, sent, value(key))


def slotted() -> Way:
    """As many slots as the writers need, through the library."""
    post = Post.objects.create(title="hot")
    SlottedCounter.objects.increment(post, "likes")  # asks for the type of the record, once
    sent = statement_of(lambda: SlottedCounter.objects.increment(post, "likes"))
    return Way(
        f"likes of post {post.pk}",
        pgbench.written_out(*sent),
        lambda: SlottedCounter.objects.value(post, "likes"),
    )


def naive() -> Way:
    """What ``get_or_create``, ``select_for_update`` and ``save`` send."""
    row = NaiveCounter.objects.create(key=f"hot{next(_numbers)}")
    table = NaiveCounter._meta.db_table
    found = f"SELECT id, key, value FROM {table} WHERE key = '{row.key}' LIMIT 21"
    saved = f"UPDATE {table} SET key = '{row.key}', value = :value + 1 WHERE id = {row.pk}"

    def stored() -> int:
        row.refresh_from_db()
        return int(row.value)

    return Way(row.key, f"{found};\n{found} FOR UPDATE \\gset\n{saved};", stored)


def updated() -> Way:
    """What ``filter().update(value=F("value") + 1)`` sends for one row; it returns no value."""
    row = NaiveCounter.objects.create(key=f"hot{next(_numbers)}")
    rows = NaiveCounter.objects.filter(pk=row.pk)
    sent = pgbench.written_out(*statement_of(lambda: rows.update(value=F("value") + 1)))
    return Way(row.key, sent, lambda: int(rows.get().value))


def fixed(rows: int) -> Way:
    """So many rows of a table of its own, laid out as the library's; each time one is drawn."""
    table = f"fixed_{rows}_{next(_numbers)}"
    execute(
        f'CREATE TABLE {table} (key varchar(200) COLLATE "C", number smallint, '
        "value bigint NOT NULL, PRIMARY KEY (key, number)) WITH (fillfactor = 60)"
    )
    drawn = f"\\set number random(0, {rows - 1})"
    upsert = (
        f"INSERT INTO {table} AS t VALUES ('hot', :number, 1) "
        "ON CONFLICT (key, number) DO UPDATE SET value = t.value + 1;"
    )
    return Way(
        table,
        f"{drawn}\n{upsert}",
        lambda: execute(f"SELECT COALESCE(SUM(value), 0)::bigint FROM {table}"),
    )


def alone(way: Way) -> str:
    """Each call commits."""
    return way.statements


def first(way: Way) -> str:
    """A transaction that counts, then works."""
    return f"BEGIN;\n{way.statements}\n{HOLD}\nCOMMIT;"


def last(way: Way) -> str:
    """A transaction that works, then counts: what the collector makes of any order."""
    return f"BEGIN;\n{HOLD}\n{way.statements}\nCOMMIT;"


@dataclass(frozen=True)
class Load:
    """So many clients, a way of counting, and where in a transaction it stands."""

    make: Callable[[], Way]
    script: Callable[[Way], str] = first
    clients: int = 16


@contextmanager
def _both(subject: Load, reference: Load, seconds: float) -> Iterator[Pair]:
    """Each on a counter of its own; a slice takes about so many seconds."""
    mine, theirs = subject.make(), reference.make()
    yield Pair(
        pgbench.side(subject.script(mine), subject.clients, seconds),
        pgbench.side(reference.script(theirs), reference.clients, seconds),
        adds_up(mine.stored, theirs.stored),
    )


def driven(subject: Load, reference: Load) -> Work:
    """A case that pgbench drives."""
    both = partial(_both, subject, reference)
    return Work(partial(both, pgbench.SECONDS), slices=2, brief=partial(both, BRIEF))


ROW, SHARDED = Load(exact), Load(sharded)
CASES: Mapping[str, Work] = {
    "hot": driven(SHARDED, ROW),
    "f-hot": driven(SHARDED, Load(updated)),
    "f-commit": driven(Load(sharded, alone), Load(updated, alone)),
    "slots": driven(Load(slotted), ROW),
    "commit": driven(Load(sharded, alone), Load(exact, alone)),
    "last": driven(Load(exact, last), ROW),
    "naive": driven(Load(naive), ROW),
    "fixed16": driven(Load(partial(fixed, 16)), ROW),
    "fixed16-commit": driven(Load(sharded, alone), Load(partial(fixed, 16), alone)),
    "cells-hot": driven(Load(with_cells), SHARDED),
}
