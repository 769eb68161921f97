"""Landing what waits in Redis, compared with the loop that is written first, and with the least."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from itertools import count
from typing import Any

from django.db import connection, transaction

from benchmarks.cases.cached import client, prefix
from benchmarks.harness import Case, Pair, Sample, at_least, expect
from benchmarks.models import NaiveCounter
from django_counters.models import Counter
from django_counters.stores.sql.dialects import dialect_of
from django_counters.stores.sql.named import NAMED
from django_counters.upkeep.flush import LARGEST, flush

DIRTY = 100_000  # counters
FEW = 10_000
NAIVE = 1000  # counters of the loop: it takes as long for each of them
ADDING = 2000  # counters of one call
_numbers = count()
UPSERT = (
    f"INSERT INTO {NaiveCounter._meta.db_table} (key, value) VALUES (%s, %s) "
    "ON CONFLICT (key) DO UPDATE SET value = EXCLUDED.value"
)


def _keys(what: str, counters: int) -> list[str]:
    """Counters of a case, no others than its own."""
    case = next(_numbers)
    return [f"pages:{what}{case}:{number}" for number in range(counters)]


def _pages(keys: Sequence[str], size: int) -> Iterator[Sequence[str]]:
    for start in range(0, len(keys), size):
        yield keys[start : start + size]


def flushed(keys: Sequence[str]) -> Sample:
    """Add one to each counter, then land that."""
    for page in _pages(keys, ADDING):
        Counter.objects.increment_many(dict.fromkeys(page, 1))
    started = time.perf_counter()
    report = flush()
    seconds = time.perf_counter() - started
    expect("counters that were landed", report.counters, len(keys))
    return Sample(len(keys), seconds)


def _landed(keys: Sequence[str], counted: int) -> None:
    """Raise `WrongSum` unless so much is in the totals."""
    totals = Counter.objects.in_bulk(keys, field_name="key").values()
    expect("the totals", sum(total.value for total in totals), counted)


@contextmanager
def beside_loop(counters: int, once: bool = False) -> Iterator[Pair]:
    """The loop that sites have: SCAN, then GET and an upsert for each key.

    ``once``: all of it in one transaction, else each key is committed for itself.
    """
    flush()  # what other cases have left
    keys = _keys("flushed", counters)
    with client() as server:
        plain = [f"{prefix()}:naive:{number}" for number in range(NAIVE)]

        def verify(subject: int, reference: int) -> None:
            _landed(keys, subject)
            rows = NaiveCounter.objects.filter(key__in=plain)
            expect("the naive counters", sum(row.value for row in rows), reference)

        yield Pair(partial(flushed, keys), partial(_looped, server, plain, once), verify)
        server.delete(*plain)


def _looped(server: Any, keys: Sequence[str], once: bool) -> Sample:
    pipeline = server.pipeline(transaction=False)
    for key in keys:
        pipeline.incr(key)
    pipeline.execute()
    started = time.perf_counter()
    with transaction.atomic() if once else nullcontext():
        done = _land_each(server)
    return Sample(done, time.perf_counter() - started)


def _land_each(server: Any) -> int:
    """Write what each key holds into its row, key by key; return how many there were."""
    done = 0
    for key in server.scan_iter(f"{prefix()}:naive:*", 1000):
        with connection.cursor() as cursor:
            cursor.execute(UPSERT, (key.decode(), int(server.get(key))))
        done += 1
    return done


@contextmanager
def beside_upsert(counters: int) -> Iterator[Pair]:
    """The same statement with the same rows in batches of the same size, from lists."""
    flush()  # what other cases have left
    keys, bare = _keys("landed", counters), _keys("upsert", counters)
    table = NAMED.quoted(connection.ops.quote_name)
    add_many = dialect_of("default").totals(table).add_many
    batches = [(list(page), [1] * len(page)) for page in _pages(bare, LARGEST)]

    def upsert() -> Sample:
        started = time.perf_counter()
        for batch in batches:
            with transaction.atomic(), connection.cursor() as cursor:
                cursor.execute(add_many, batch)
                cursor.fetchall()
        return Sample(counters, time.perf_counter() - started)

    def verify(subject: int, reference: int) -> None:
        _landed(keys, subject)
        _landed(bare, reference)

    yield Pair(partial(flushed, keys), upsert, verify)


def _case(
    name: str, counters: int, reference: str, target: Any, prepare: Callable[..., Any]
) -> Case:
    subject = f"flush of {counters:,} counters, per counter"
    less = partial(prepare, FEW)
    return Case(name, subject, reference, target, partial(prepare, counters), slices=1, less=less)


UPSERTS = "the bare upsert of as many rows"
LOOP = "SCAN, then GET and one upsert for each key"

CASES: Sequence[Case] = (
    _case("flush-loop", DIRTY, f"a loop that commits each key: {LOOP}", at_least(30), beside_loop),
    _case(
        "flush-loop-once",
        DIRTY,
        f"the same loop in one transaction: {LOOP}, one commit",
        None,
        partial(beside_loop, once=True),
    ),
    _case("flush", DIRTY, UPSERTS, at_least(0.7), beside_upsert),
    _case("flush-few", FEW, UPSERTS, None, beside_upsert),
)
