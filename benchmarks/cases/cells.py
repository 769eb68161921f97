"""Counting by hour, day and tag, compared with counting alone, and with what one writes by hand.

Processor time is that of this process and of the one that serves its connection, or that of Redis.
Where the clocks of a database cannot be seen it is the time on the wall.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from itertools import count, cycle
from typing import Any

from django.db import connection, transaction
from django.db.models import Count, Sum
from django.db.models.functions import TruncDay
from django.utils import timezone

from benchmarks.capacity.meter import Meter
from benchmarks.cases.cached import client, evalsha, prefix
from benchmarks.cases.flush import NAIVE, flushed, keys_of, landed
from benchmarks.database import known
from benchmarks.harness import Action, Pair, Sample, Side, Work, adds_up, expect, loop, remain
from benchmarks.inspection import execute, increment, value
from benchmarks.models import Event
from django_counters.cached.flush import flush
from django_counters.contrib.series.models import CounterCell
from django_counters.contrib.series.options import SUM
from django_counters.contrib.uniques.sketches import KEPT
from django_counters.measure import Measure
from django_counters.models import Counter
from django_counters.registry import registry
from django_counters.stores.sql.dialects.cells import insert, names
from example_project.scratch import tables

SLICE = 100  # calls of one slice
SCRIPTS = 200  # that Redis is sent at once
COUNTERS = 20_000  # of a landing
FEW = 2000  # of them, where time is short
EVENTS = 1_000_000
LESS = 20_000  # of them, where time is short
DAYS = 90
CROWD = 20_000  # people who come to one page between two landings
DE = {"country": "DE"}
BOTH = ("client", "database")
CELLS, ROWS = CounterCell._meta.db_table, Event._meta.db_table
TOTAL = (
    f"INSERT INTO {Counter._meta.db_table} AS t (key, value, updated_at) "
    "VALUES (%s, %s, STATEMENT_TIMESTAMP()) ON CONFLICT (key) DO UPDATE "
    "SET value = t.value + EXCLUDED.value, updated_at = EXCLUDED.updated_at RETURNING value"
)
CELL = insert(SUM, "VALUES (%s, %s, %s, %s, 'DE', 0, %s)")
_numbers = count()


def spending(meter: Meter, action: Action, calls: int, each: int, *programs: str) -> Side:
    """A side whose seconds are those of processors; each call counts as so many operations."""

    def call() -> int:
        for _ in range(calls):
            action()
        return calls * each

    def side() -> Sample:
        spent = meter.around(call)
        told = [spent.each[program] for program in programs]
        seconds = [one for one in told if one is not None]
        cost = sum(seconds) if len(seconds) == len(told) else spent.each["seconds"] or 0
        return Sample(spent.operations, spent.operations * cost)

    return side


def _measure(key: str) -> Measure:
    found = registry.policy(key).measure
    assert found is not None
    return found


def counted(keys: Sequence[str]) -> int:
    """What is in the totals; the cells of each of their periods hold as much."""
    total = landed(keys)
    for name in _measure(keys[0]).declared("per"):
        cells = CounterCell.objects.filter(key__in=keys, period=CounterCell.Period[name.upper()])
        expect(f"cells by {name}", cells.aggregate(all=Sum("value"))["all"] or 0, total)
    return total


@contextmanager
def _beside(theirs: Action, stored: Callable[[], int]) -> Iterator[Pair]:
    """An increment with cells, and what is done to another counter."""
    mine = f"visits:cells{next(_numbers)}"
    tagged = partial(Counter.objects.increment, mine, tags=DE)
    tagged()
    with client() as server:
        meter = Meter(server)
        subject, reference = (spending(meter, way, SLICE, 1, *BOTH) for way in (tagged, theirs))
        yield Pair(subject, reference, adds_up(lambda: counted([mine]), stored))


@contextmanager
def beside_plain() -> Iterator[Pair]:
    """An increment that has no cells."""
    key = f"views:cells{next(_numbers)}"
    with _beside(partial(increment, key), value(key)) as pair:
        yield pair


@contextmanager
def beside_statements() -> Iterator[Pair]:
    """What one would send instead."""
    keys = [f"visits:hand{next(_numbers)}"]
    by_hand(keys)
    with _beside(partial(by_hand, keys), lambda: counted(keys)) as pair:
        yield pair


def by_hand(keys: Sequence[str], amount: Callable[[str], int] = lambda name: 1) -> None:  # noqa: ARG005
    """One upsert for each total and each cell, in one transaction."""
    measure = registry.measures("default").ensure(_measure(keys[0])).id
    hour = timezone.localtime().replace(minute=0, second=0, microsecond=0)
    starts = (CounterCell.Period.HOUR, hour), (CounterCell.Period.DAY, hour.replace(hour=0))
    with transaction.atomic(), connection.cursor() as cursor:
        for key in keys:
            cursor.execute(TOTAL, [key, amount(key)])
            cursor.fetchone()
            for period, start in starts:
                by = amount(f"{key}:{period.label}")
                cursor.execute(CELL, [measure, key, period.value, start, by])


@contextmanager
def in_redis(namespace: str, people: int = 0) -> Iterator[Pair]:
    """What Redis takes to add to a counter and its cells, and to a counter alone.

    Where there are ``people``, each time another one of them comes.

    It is sent many scripts at once, so that it never waits.
    """
    number = next(_numbers)
    mine, theirs = f"{namespace}:cells{number}", f"pages:cells{number}"
    with client() as server:
        subject = _scripts(server, mine, people)
        reference = _scripts(server, theirs)
        verify = adds_up(partial(_waiting, mine), value(theirs))
        yield Pair(subject, reference, verify)


def _scripts(server: Any, key: str, people: int = 0) -> Side:
    increment(key)
    crowd = cycle(range(1, people + 1) if people else [None])
    words = cycle([evalsha(key, next(crowd)) for _ in range(people or 1)])

    def many() -> None:
        pipeline = server.pipeline(transaction=False)
        for _ in range(SCRIPTS):
            pipeline.evalsha(*next(words))
        pipeline.execute()

    spent = spending(Meter(server), many, 1, SCRIPTS, "redis")

    def side() -> Sample:
        # Redis knows a total for a minute; to ask for it again is not what is compared.
        Counter.objects.values_of([key], consistency="cached", max_age=0)
        return spent()

    return side


def _waiting(key: str) -> int:
    """What is counted, once it is in the database with its cells."""
    flush()
    return counted([key])


@contextmanager
def _landing(counters: int, reference: Side, theirs: Sequence[str]) -> Iterator[Pair]:
    flush()  # what other cases have left
    keys = keys_of("cells", counters, "hourly")
    stored = counted if _has_cells(theirs) else landed
    verify = adds_up(lambda: counted(keys), lambda: stored(theirs))
    yield Pair(partial(flushed, keys, DE), reference, verify)


def _has_cells(keys: Sequence[str]) -> bool:
    return registry.policy(keys[0]).measure is not None


@contextmanager
def beside_totals(counters: int) -> Iterator[Pair]:
    """A landing of as many counters that have no cells."""
    keys = keys_of("totals", counters)
    with _landing(counters, partial(flushed, keys), keys) as pair:
        yield pair


@contextmanager
def beside_loop(counters: int) -> Iterator[Pair]:
    """The loop that one writes first, over names in Redis that it knows."""
    keys = keys_of("loop", NAIVE, "visits")
    with client() as server:

        def looped() -> Sample:
            waiting = server.pipeline(transaction=False)
            for key in keys:
                for name in (key, f"{key}:hour", f"{key}:day"):
                    waiting.set(f"{prefix()}:{name}", 1)
            waiting.execute()
            started = time.perf_counter()
            by_hand(keys, lambda name: int(server.get(f"{prefix()}:{name}")))
            return Sample(len(keys), time.perf_counter() - started)

        with _landing(counters, looped, keys) as pair:
            yield pair


@contextmanager
def reading(tag_sets: int, events: int) -> Iterator[Pair]:
    """The last days by day, from cells and from events."""
    key = f"visits:read{next(_numbers)}"
    until = timezone.localtime().replace(hour=0, minute=0, second=0, microsecond=0)
    last = until - timedelta(days=DAYS), until - timedelta(microseconds=1)
    with tables(Event):
        measure = _happened(key, tag_sets, events, last[0])
        cells = CounterCell.objects.filter(
            measure_id=measure, key=key, period=CounterCell.Period.DAY, start__range=last
        )
        rows = Event.objects.filter(key=key, created__range=last)

        def mine() -> int:
            found = cells.values_list("start").annotate(all=Sum("value"))
            return sum(row[-1] for row in found)

        def theirs() -> int:
            days = rows.annotate(day=TruncDay("created")).values_list("day")
            return sum(row[-1] for row in days.annotate(all=Count("pk")))

        yield Pair(loop(mine, 10), loop(theirs, 1), remain((mine, events), (theirs, events)))


def _happened(key: str, tag_sets: int, events: int, since: Any) -> int:
    """Make events, evenly over the days and the tags, and the cells of them; the measure."""
    measure = registry.measures("default").ensure(_measure(key)).id
    zone, moment = timezone.get_default_timezone_name(), f"'{since.isoformat()}'::timestamptz"
    step = f"interval '{DAYS} days' / {events} * n"
    execute(
        f"INSERT INTO {ROWS} (key, country, created) SELECT '{key}', 'c' || n % {tag_sets}, "
        f"{moment} + {step} FROM generate_series(0, {events - 1}) AS n"
    )
    execute(
        f"INSERT INTO {CELLS} ({', '.join(names(SUM.columns))}) SELECT {measure}, key, "
        f"{CounterCell.Period.DAY.value}, date_trunc('day', created, '{zone}'), country, 0, "
        f"COUNT(*) FROM {ROWS} WHERE key = '{key}' GROUP BY 2, 4, 5"
    )
    known(Event, CounterCell)
    return measure


def _landings(prepare: Callable[[int], Any]) -> Work:
    return Work(partial(prepare, COUNTERS), slices=1, less=partial(prepare, FEW))


def _readings(tag_sets: int) -> Work:
    prepare = partial(reading, tag_sets)
    return Work(partial(prepare, EVENTS), slices=1, less=partial(prepare, LESS))


CASES: Mapping[str, Work] = {
    "cells": Work(beside_plain),
    "cells-statements": Work(beside_statements),
    "cells-cached": Work(partial(in_redis, "daily")),
    "uniques-cached-crowd": Work(partial(in_redis, "people", people=CROWD)),
    "uniques-cached": Work(partial(in_redis, "people", people=KEPT)),
    "cells-read": _readings(1),
    "cells-read-tags": _readings(100),
}
LANDINGS: Mapping[str, Work] = {
    "cells-flush": _landings(beside_totals),
    "cells-flush-loop": _landings(beside_loop),
}
