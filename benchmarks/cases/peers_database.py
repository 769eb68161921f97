"""Counting in the database, as it is done without this library.

What is compared promises something else in most rows: the row says what. The fixed rows of
``statements`` hold them for two milliseconds; here each call commits.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from itertools import count
from typing import Any

import psycopg
from django.db import connection
from django.db.models import F, Model, Sum

from benchmarks.cases.exact import updating
from benchmarks.cases.ledger import upsert
from benchmarks.cases.statements import Load, alone, driven, fixed, sharded
from benchmarks.harness import (
    Pair,
    Work,
    adds_up,
    expect,
    loops,
    remain,
)
from benchmarks.inspection import execute, increment, statement_of, value
from benchmarks.models import FixedShard
from benchmarks.pgbench import DRIVERS_OWN
from django_counters.models import Counter, CounterShard

SLICE = 100  # calls of one slice
WRITERS = 16
# As the library's own tables of rows and shards have it.
ROOM = "ALTER TABLE {} SET (fillfactor = 60)"
_numbers = count()


@contextmanager
def tables(*models: type[Model]) -> Iterator[None]:
    """Tables for one case."""
    with connection.schema_editor() as editor:
        for model in models:
            editor.create_model(model)
        for model in models:
            if model is FixedShard:
                editor.execute(ROOM.format(editor.quote_name(model._meta.db_table)))
    try:
        yield
    finally:
        with connection.schema_editor() as editor:
            for model in reversed(models):
                editor.delete_model(model)


def known(*models: type[Model]) -> None:
    """Let the planner know what is in the tables; see `database.settle`."""
    execute(f"VACUUM ANALYZE {', '.join(model._meta.db_table for model in models)}")


@contextmanager
def bare_driver() -> Iterator[psycopg.Connection]:
    """A connection of psycopg to the same database, in autocommit, as it comes."""
    params = connection.get_connection_params()
    given = {name: params[name] for name in params if name not in DRIVERS_OWN}
    with psycopg.connect(**given, autocommit=True) as driver:
        yield driver


def prepared(driver: psycopg.Connection, sql: str, params: Any = None) -> Callable[[], object]:
    """Executes a prepared statement and takes its one row, in a cursor that is kept."""
    cursor = driver.cursor()

    def call() -> object:
        return cursor.execute(sql, params, prepare=True).fetchone()

    return call


@contextmanager
def beside_driver() -> Iterator[Pair]:
    """The library's own statement without Django: no checks, no wrappers, no log of queries."""
    key = f"views:driver{next(_numbers)}"
    sent = statement_of(partial(increment, key))

    def verify(mine: int, theirs: int) -> None:
        expect(key, Counter.objects.value(key), 1 + mine + theirs)

    with bare_driver() as driver:
        yield loops(partial(increment, key), prepared(driver, *sent), verify)


@contextmanager
def beside_upsert() -> Iterator[Pair]:
    """The least that adds to one row and returns its value."""
    key, least = f"views:upsert{next(_numbers)}", upsert()
    increment(key)
    verify = adds_up(value(key), least.stored)
    with bare_driver() as driver:
        yield loops(partial(increment, key), prepared(driver, least.statements), verify)


def _fixed_shards(key: str, rows: int) -> None:
    """All rows of a counter, which are there before it is counted."""
    FixedShard.objects.bulk_create(FixedShard(key=key, shard=number) for number in range(rows))
    known(FixedShard)


def _update_one_of(key: str, rows: int) -> None:
    drawn = random.randrange(rows)
    FixedShard.objects.filter(key=key, shard=drawn).update(value=F("value") + 1)


def summed(key: str) -> int:
    """The value of a counter with a fixed number of rows."""
    return int(FixedShard.objects.filter(key=key).aggregate(total=Sum("value"))["total"])


@contextmanager
def beside_fixed(rows: int) -> Iterator[Pair]:
    """One caller; the fixed rows return no value."""
    number = next(_numbers)
    mine, theirs = f"spread:peer{number}", f"peer{number}"
    with tables(FixedShard):
        _fixed_shards(theirs, rows)
        verify = adds_up(value(mine), partial(summed, theirs))
        yield loops(partial(increment, mine), lambda: _update_one_of(theirs, rows), verify)


@contextmanager
def reading_fixed(rows: int) -> Iterator[Pair]:
    """The library's counter has the rows that its writers made, however many it may have."""
    number = next(_numbers)
    mine, theirs = f"spread:peer{number}", f"peer{number}"
    CounterShard.objects.bulk_create(
        [CounterShard(key=mine, shard=shard, value=shard) for shard in range(WRITERS)]
    )
    with tables(FixedShard):
        _fixed_shards(theirs, rows)
        FixedShard.objects.update(value=F("shard"))
        known(FixedShard, CounterShard)
        ours, summing = value(mine), partial(summed, theirs)
        verify = remain((ours, sum(range(WRITERS))), (summing, sum(range(rows))))
        yield loops(ours, summing, verify)


CASES: Mapping[str, Work] = {
    "driver": Work(beside_driver),
    "driver-upsert": Work(beside_upsert),
    "fixed100-update": Work(partial(beside_fixed, 100)),
    "fixed16-read": Work(partial(reading_fixed, 16)),
    "fixed100-read": Work(partial(reading_fixed, 100)),
}
# Each call commits, and waits for the disk.
COMMITS: Mapping[str, Work] = {
    "fixed16-commit": driven(Load(sharded, alone), Load(partial(fixed, 16), alone)),
    "fixed100-commit": driven(Load(sharded, alone), Load(partial(fixed, 100), alone)),
    "update-durable": Work(updating),
}
