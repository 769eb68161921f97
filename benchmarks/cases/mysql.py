"""Counters on MySQL and MariaDB, beside what one writes without a library, by eight processes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial

from django.db import connection, transaction
from django.db.models import F

from benchmarks.cases.exact import naive_value
from benchmarks.cases.spread import HOLD, first
from benchmarks.harness import Pair, Work, adds_up, lasting
from benchmarks.inspection import increment, value
from benchmarks.models import NaiveCounter
from benchmarks.team import processes
from django_counters.models import Counter

WRITERS = 8
# As many as a sharded counter has, if nothing else is said.
SHARDS = 16
_ADD = f"UPDATE {NaiveCounter._meta.db_table} SET value = LAST_INSERT_ID(value + 1)"


def update_and_read(key: str) -> int:
    """Add one and say the new value, for a row that is there."""
    rows = NaiveCounter.objects.filter(key=key)
    with transaction.atomic():
        rows.update(value=F("value") + 1)
        return int(rows.values_list("value", flat=True).get())


def lock_and_save(key: str) -> int:
    """The same with the row locked before it is read, and written as it is then."""
    with transaction.atomic():
        row = NaiveCounter.objects.select_for_update().get(key=key)
        row.value += 1
        row.save(update_fields=["value"])
    return int(row.value)


def bare(key: str) -> None:
    """The same by the driver alone, in one text: no library can be faster."""
    _send(f"{_ADD} WHERE `key` = %s; SELECT LAST_INSERT_ID()", key)


def bare_first(rows: int, key: str) -> None:
    """A transaction of the driver that counts in one of so many rows, by connection, then works."""
    _send("BEGIN")
    _send(f"{_ADD} WHERE `key` = CONCAT(%s, CONNECTION_ID() %% {rows})", key)
    time.sleep(HOLD)
    _send("COMMIT")


def _send(sql: str, *params: str) -> None:
    with connection.connection.cursor() as cursor:
        cursor.execute(sql, params)
        while cursor.nextset():
            pass


@contextmanager
def _bare_row(seconds: float) -> Iterator[Pair]:
    keys = "bare:row", "naive:bare"
    NaiveCounter.objects.bulk_create(NaiveCounter(key=key) for key in keys)
    with processes(WRITERS) as team:
        ways = zip((bare, lock_and_save), keys, strict=True)
        subject, reference = (team.side(partial(way, key), seconds) for way, key in ways)
        yield Pair(subject, reference, adds_up(*(partial(naive_value, key) for key in keys)))


@contextmanager
def _bare_shards(seconds: float) -> Iterator[Pair]:
    sides = {"bare:shard:": SHARDS, "bare:one:": 1}
    for key, rows in sides.items():
        NaiveCounter.objects.bulk_create(NaiveCounter(key=f"{key}{n}") for n in range(rows))
    with processes(WRITERS) as team:
        subject, reference = (
            team.side(partial(bare_first, rows, key), seconds) for key, rows in sides.items()
        )
        yield Pair(subject, reference, adds_up(*(partial(_sum_of, key) for key in sides)))


def _sum_of(prefix: str) -> int:
    return sum(NaiveCounter.objects.filter(key__startswith=prefix).values_list("value", flat=True))


@contextmanager
def _one_row(theirs: Callable[[str], int], seconds: float) -> Iterator[Pair]:
    mine, naive = f"views:{theirs.__name__}", f"naive:{theirs.__name__}"
    increment(mine)
    NaiveCounter.objects.create(key=naive)
    with processes(WRITERS) as team:
        ways = partial(increment, mine), partial(theirs, naive)
        subject, reference = (team.side(way, seconds) for way in ways)
        yield Pair(subject, reference, adds_up(value(mine), partial(naive_value, naive)))


@contextmanager
def _sharded(seconds: float) -> Iterator[Pair]:
    keys = "spread:hot", "views:hot"
    Counter.objects.increment_many(dict.fromkeys(keys, 1))
    with processes(WRITERS) as team:
        subject, reference = (
            team.side(partial(first, partial(increment, key)), seconds) for key in keys
        )
        yield Pair(subject, reference, adds_up(*map(value, keys)))


CASES: Mapping[str, Work] = {
    "mysql-update": lasting(partial(_one_row, update_and_read)),
    "mysql-locked": lasting(partial(_one_row, lock_and_save)),
    "mysql-locked-bare": lasting(_bare_row),
    "mysql-sharded": lasting(_sharded),
    "mysql-sharded-bare": lasting(_bare_shards),
}
