"""The rollup, compared with the least that any fold of as many rows has to do."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial

from django.db import transaction

from benchmarks.harness import (
    Pair,
    Sample,
    Work,
    WrongSum,
    expect,
)
from benchmarks.inspection import execute
from django_counters.models import Counter, CounterShard
from django_counters.upkeep import rollup

COUNTERS = 10_000
SHARDS = 10  # of each counter
TOTALS, PENDING = Counter._meta.db_table, CounterShard._meta.db_table
PLAIN_TOTALS, PLAIN_PENDING = "plain_totals", "plain_pending"

# One statement, one transaction, nobody else is thought of.
PLAIN = (
    f"WITH gone AS (DELETE FROM {PLAIN_PENDING} RETURNING key, value), "
    "sums AS (SELECT key, SUM(value) AS d FROM gone GROUP BY key) "
    f"UPDATE {PLAIN_TOTALS} t SET value = t.value + sums.d, updated_at = statement_timestamp() "
    "FROM sums WHERE t.key = sums.key"
)


@contextmanager
def _folding(counters: int) -> Iterator[Pair]:
    rollup()  # what waits from other cases
    execute(f"CREATE TABLE {PLAIN_TOTALS} (LIKE {TOTALS} INCLUDING ALL)")
    execute(f"CREATE TABLE {PLAIN_PENDING} (LIKE {PENDING} INCLUDING ALL)")
    for totals in (TOTALS, PLAIN_TOTALS):
        execute(
            f"INSERT INTO {totals} (key, value, updated_at) "
            f"SELECT 'folded:' || n, 0, now() FROM generate_series(1, {counters}) n"
        )
    yield Pair(partial(_library, counters), partial(_plain, counters), _verify)


def _library(counters: int) -> Sample:
    rows = _fill(PENDING, TOTALS, counters)
    started = time.perf_counter()
    report = rollup()
    seconds = time.perf_counter() - started
    if report.rows != rows:
        raise WrongSum(f"the rollup folded {report.rows} rows, there were {rows}")
    return Sample(rows, seconds)


def _plain(counters: int) -> Sample:
    rows = _fill(PLAIN_PENDING, PLAIN_TOTALS, counters)
    started = time.perf_counter()
    with transaction.atomic():
        execute(PLAIN)
    return Sample(rows, time.perf_counter() - started)


def _fill(pending: str, totals: str, counters: int) -> int:
    """Let rows of one wait for each counter; leave no trace of the slice before."""
    execute(f"TRUNCATE {pending}")
    execute(
        f"INSERT INTO {pending} (key, shard, value) SELECT 'folded:' || n, s, 1 "
        f"FROM generate_series(1, {counters}) n, generate_series(0, {SHARDS - 1}) s"
    )
    execute(f"VACUUM ANALYZE {pending}, {totals}")
    return counters * SHARDS


def _verify(subject: int, reference: int) -> None:
    for totals, pending, counted in (
        (TOTALS, PENDING, subject),
        (PLAIN_TOTALS, PLAIN_PENDING, reference),
    ):
        folded = f"FROM {totals} WHERE key LIKE 'folded:%'"
        expect(totals, execute(f"SELECT SUM(value)::bigint {folded}"), counted)
        expect(pending, execute(f"SELECT COUNT(*) FROM {pending}"), 0)


LESS = partial(_folding, COUNTERS // 10)
CASES: Mapping[str, Work] = {"rollup": Work(partial(_folding, COUNTERS), 1, LESS)}
