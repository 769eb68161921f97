"""Counting in several regions: what it costs those who count, and how fast regions agree."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import count

from django.db import DEFAULT_DB_ALIAS, connection, connections
from django.db.models import Sum
from django.test import override_settings

from benchmarks.cases.flush import ADDING, keys_of
from benchmarks.database import beside
from benchmarks.harness import Pair, Sample, Work, adds_up, expect, loops
from benchmarks.inspection import execute, increment, value
from django_counters.contrib.regions.models import CounterRegion
from django_counters.contrib.regions.publishing import publish
from django_counters.contrib.regions.pulling import pull
from django_counters.models import (
    Counter,
)
from django_counters.testing import override_counters

CHANGED, FEW = 100_000, 10_000  # counters of one slice
CALLS = 500
US = "other"  # the database of the second region
ENTRIES, COPIED = CounterRegion._meta.db_table, "benchmarks_copied"
_numbers = count()


@contextmanager
def incrementing() -> Iterator[Pair]:
    """A counter of several regions, and one that is counted in its own alone."""
    number = next(_numbers)
    mine, theirs = f"likes:regional{number}", f"local:regional{number}"
    with (
        override_settings(COUNTERS_REGION="eu"),
        override_counters(likes={"REGIONAL": True}, local={}),
    ):
        increment(mine)
        increment(theirs)
        stored = adds_up(value(mine), value(theirs))
        yield loops(partial(increment, mine), partial(increment, theirs), stored, CALLS)


@contextmanager
def converging(counters: int) -> Iterator[Pair]:
    """Publish and pull, and a COPY of the same rows into an empty table with the same indexes."""
    keys, copied = keys_of("regional", counters, "likes"), _Copied()
    with (
        beside(US),
        override_settings(COUNTERS_REGION="eu", COUNTERS_REGIONS={"us": US}),
        override_counters(likes={"REGIONAL": True}),
    ):
        execute(f"CREATE TABLE {COPIED} (LIKE {ENTRIES} INCLUDING ALL)", US)
        converged(keys)
        yield Pair(partial(converged, keys), copied.again, adds_up(_seen, lambda: copied.rows))


def converged(keys: Sequence[str]) -> Sample:
    """Add one to each counter, then let the other region see that."""
    for start in range(0, len(keys), ADDING):
        Counter.objects.increment_many(dict.fromkeys(keys[start : start + ADDING], 1))
    started = time.perf_counter()
    published = publish()
    with override_settings(COUNTERS_REGION="us", COUNTERS_REGIONS={"eu": DEFAULT_DB_ALIAS}):
        pulled = pull(US)["eu"]
    seconds = time.perf_counter() - started
    expect("entries that were published", published.entries, len(keys))
    expect("entries that were copied", pulled.entries, len(keys))
    return Sample(len(keys), seconds)


def _seen() -> int:
    """What the second region knows of the first one."""
    entries = CounterRegion._base_manager.using(US)
    return int(entries.aggregate(sum=Sum("value", default=0))["sum"])


class _Copied:
    """Copies the entries of the first database into the second one, without their meaning."""

    def __init__(self) -> None:
        self.rows = 0

    def again(self) -> Sample:
        execute(f"TRUNCATE {COPIED}", US)
        started = time.perf_counter()
        _copy()
        seconds = time.perf_counter() - started
        rows = execute(f"SELECT COUNT(*) FROM {COPIED}", US)
        self.rows += rows
        return Sample(rows, seconds)


def _copy() -> None:
    columns = "(key, region, incarnation, value, version, base)"
    with (
        connection.connection.cursor() as here,
        connections[US].connection.cursor() as there,
        here.copy(f"COPY {ENTRIES} {columns} TO STDOUT (FORMAT binary)") as out,
        there.copy(f"COPY {COPIED} {columns} FROM STDIN (FORMAT binary)") as into,
    ):
        for block in out:
            into.write(block)


CASES: Mapping[str, Work] = {"regional-increment": Work(incrementing)}
CONVERGENCE: Mapping[str, Work] = {
    "regions-converge": Work(partial(converging, CHANGED), slices=1, less=partial(converging, FEW))
}
