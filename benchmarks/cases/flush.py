"""Landing what waits in Redis, compared with the loop that is written first, and with the least."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from itertools import count
from typing import Any

from django.db import connection, transaction

from benchmarks.cases.cached import client, prefix
from benchmarks.harness import Pair, Sample, Work, adds_up, expect
from benchmarks.models import NaiveCounter
from django_counters.cached.flush import LARGEST, flush
from django_counters.models import Counter
from django_counters.stores.sql.dialects import dialect_of
from django_counters.stores.sql.tables import NAMED

DIRTY = 100_000  # counters
FEW = 10_000
NAIVE = 250  # counters of the loop: it takes as long for each of them
ADDING = 2000  # counters of one call
_numbers = count()
UPSERT = (
    f"INSERT INTO {NaiveCounter._meta.db_table} (key, value) VALUES (%s, %s) "
    "ON CONFLICT (key) DO UPDATE SET value = EXCLUDED.value"
)


def keys_of(what: str, counters: int, namespace: str = "pages") -> list[str]:
    """Counters of a case, no others than its own."""
    case = next(_numbers)
    return [f"{namespace}:{what}{case}:{number}" for number in range(counters)]


def _pages(keys: Sequence[str], size: int) -> Iterator[Sequence[str]]:
    for start in range(0, len(keys), size):
        yield keys[start : start + size]


def flushed(keys: Sequence[str], tags: Mapping[str, str] | None = None) -> Sample:
    """Add one to each counter, then land that."""
    for page in _pages(keys, ADDING):
        Counter.objects.increment_many(dict.fromkeys(page, 1), tags=tags)
    started = time.perf_counter()
    report = flush()
    seconds = time.perf_counter() - started
    expect("counters that were landed", report.counters, len(keys))
    return Sample(len(keys), seconds)


def landed(keys: Sequence[str]) -> int:
    """What is in the totals, wherever else something waits."""
    return sum(row.value for row in Counter.objects.filter(key__in=keys))


@contextmanager
def beside_loop(counters: int) -> Iterator[Pair]:
    """The loop that sites have: SCAN, then GET and an upsert for each key, each committed."""
    flush()  # what other cases have left
    keys = keys_of("flushed", counters)
    with client() as server:
        plain = [f"{prefix()}:naive:{number}" for number in range(NAIVE)]

        def verify(subject: int, reference: int) -> None:
            rows = NaiveCounter.objects.filter(key__in=plain)
            expect("the totals", landed(keys), subject)
            expect("the naive counters", sum(row.value for row in rows), reference)

        yield Pair(partial(flushed, keys), partial(_looped, server, plain), verify)
        server.delete(*plain)


def _looped(server: Any, keys: Sequence[str]) -> Sample:
    pipeline = server.pipeline(transaction=False)
    for key in keys:
        pipeline.incr(key)
    pipeline.execute()
    started = time.perf_counter()
    done = 0
    for key in server.scan_iter(f"{prefix()}:naive:*", 1000):
        with connection.cursor() as cursor:
            cursor.execute(UPSERT, (key.decode(), int(server.get(key))))
        done += 1
    return Sample(done, time.perf_counter() - started)


@contextmanager
def beside_upsert(counters: int) -> Iterator[Pair]:
    """The same statement with the same rows in batches of the same size, from lists."""
    flush()  # what other cases have left
    keys, bare = keys_of("landed", counters), keys_of("upsert", counters)
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

    verify = adds_up(partial(landed, keys), partial(landed, bare))
    yield Pair(partial(flushed, keys), upsert, verify)


def _landing(prepare: Callable[[int], AbstractContextManager[Pair]]) -> Work:
    return Work(partial(prepare, DIRTY), slices=1, less=partial(prepare, FEW))


CASES: Mapping[str, Work] = {
    "flush-loop": _landing(beside_loop),
    "flush": _landing(beside_upsert),
}
