"""Counters on MySQL and MariaDB, beside what one writes without a library, by eight processes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial

from django.db import transaction
from django.db.models import F

from benchmarks.cases.exact import naive_value
from benchmarks.cases.spread import first
from benchmarks.harness import Pair, Work, adds_up, lasting
from benchmarks.inspection import increment, value
from benchmarks.models import NaiveCounter
from benchmarks.team import processes
from django_counters.models import Counter

WRITERS = 8


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
    "mysql-sharded": lasting(_sharded),
}
