"""The statements that the library sends, driven by pgbench: what rows and their locks cost.

Each way of counting has one hot counter. Most cases put the statement into a transaction that
lasts two milliseconds and counts first, so that all that it locks is held meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import count

from benchmarks import pgbench
from benchmarks.harness import Case, Pair, Target, at_least, expect
from benchmarks.inspection import execute, statement_of
from benchmarks.models import NaiveCounter, Post
from django_counters.models import Counter, SlottedCounter

HOLD = r"\sleep 2 ms"
BRIEF = 0.2  # seconds of one slice, where time is short
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


def _named(namespace: str) -> Way:
    key = f"{namespace}:hot{next(_numbers)}"
    sent = pgbench.written_out(*statement_of(lambda: Counter.objects.increment(key)))
    return Way(key, sent, lambda: Counter.objects.value(key))


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
        return row.value

    return Way(row.key, f"{found};\n{found} FOR UPDATE \\gset\n{saved};", stored)


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
    mine, theirs = subject.make(), reference.make()
    before = mine.stored(), theirs.stored()

    def verify(counted: int, counted_too: int) -> None:
        expect(mine.name, mine.stored() - before[0], counted)
        expect(theirs.name, theirs.stored() - before[1], counted_too)

    yield Pair(
        pgbench.side(subject.script(mine), subject.clients, seconds),
        pgbench.side(reference.script(theirs), reference.clients, seconds),
        verify,
    )


def compare(
    subject: Load, reference: Load, seconds: float = pgbench.SECONDS
) -> Callable[[], AbstractContextManager[Pair]]:
    """Both loads, each on a counter of its own; a slice takes about so many seconds."""
    return partial(_both, subject, reference, seconds)


def driven(
    name: str, words: tuple[str, str], target: Target | None, subject: Load, reference: Load
) -> Case:
    """A case that pgbench drives; ``words``: those of the subject, and of the reference."""
    brief = compare(subject, reference, BRIEF)
    return Case(name, *words, target, compare(subject, reference), slices=2, less=brief)


ROW = Load(exact)
SHARDED = "sharded, 16 clients, first in 2 ms"
ONE_ROW = "one exact row, first in 2 ms"

CASES: Sequence[Case] = (
    driven("hot", (SHARDED, ONE_ROW), at_least(10), Load(sharded), ROW),
    driven(
        "slots",
        ("slotted, 16 clients, first in 2 ms", ONE_ROW),
        at_least(10),
        Load(slotted),
        ROW,
    ),
    driven(
        "commit",
        ("sharded, 16 clients, autocommit", "one exact row"),
        at_least(3),
        Load(sharded, alone),
        Load(exact, alone),
    ),
    driven(
        "commit64",
        ("sharded, 64 clients, autocommit", "one exact row"),
        at_least(4),
        Load(sharded, alone, 64),
        Load(exact, alone, 64),
    ),
    driven(
        "last",
        ("one exact row, 16 clients, last in 2 ms", ONE_ROW),
        at_least(6),
        Load(exact, last),
        ROW,
    ),
    driven(
        "crowd",
        ("sharded, 64 clients, first in 2 ms", "the same with 16 clients"),
        at_least(0.5),
        Load(sharded, clients=64),
        Load(sharded),
    ),
    driven(
        "naive",
        ("SELECT, SELECT FOR UPDATE, UPDATE, first in 2 ms", ONE_ROW),
        None,
        Load(naive),
        ROW,
    ),
    *(
        driven(
            f"fixed{rows}",
            (f"{rows} rows, one drawn, first in 2 ms", ONE_ROW),
            None,
            Load(partial(fixed, rows)),
            ROW,
        )
        for rows in (16, 100)
    ),
)
