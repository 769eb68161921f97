"""The counters that counted most in a week, from an index and by adding up their cells."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from itertools import count
from typing import Any

from django.db.models import Sum
from django.utils import timezone

from benchmarks.database import known
from benchmarks.harness import Pair, Work, loop, remain
from benchmarks.inspection import execute
from django_counters.contrib import series
from django_counters.contrib.series.models import CounterCell
from django_counters.contrib.series.options import SUM
from django_counters.contrib.top.apps import RANK
from django_counters.contrib.top.models import CounterRank
from django_counters.contrib.top.reading import largest
from django_counters.measure import Kind
from django_counters.registry import registry
from django_counters.stores.sql.dialects.cells import names

KEYS = 1_000_000
LESS = 20_000  # of them, where time is short
FIRST = 10
CELLS, RANKS = CounterCell._meta.db_table, CounterRank._meta.db_table
_weeks = count(2)


@contextmanager
def reading(keys: int) -> Iterator[Pair]:
    """The first ones of a week that is over, each of whose keys has one cell."""
    today = timezone.localtime().replace(hour=0, minute=0, second=0, microsecond=0)
    start = (today - timedelta(days=today.weekday(), weeks=next(_weeks))).replace(hour=0)
    measure = _counted(keys, start)
    week = series.of(namespace="weekly").per("week")
    asked = week.between(start, start + timedelta(days=1))
    cells = CounterCell.objects.filter(
        measure_id=measure, period=CounterCell.Period.WEEK, start=start
    )

    def mine() -> int:
        return sum(row.value for row in largest(asked, FIRST))

    def theirs() -> int:
        sums = cells.values("key").annotate(amount=Sum("value"))
        return sum(row["amount"] for row in sums.order_by("-amount")[:FIRST])

    verify = remain((mine, theirs()), (theirs, mine()))
    try:
        yield Pair(loop(mine, 50), loop(theirs, 1), verify)
    finally:
        for table in (CELLS, RANKS):
            execute(f"DELETE FROM {table} WHERE measure_id = {measure}")


def _counted(keys: int, start: Any) -> int:
    """Let each key have a cell, and its rank, in a week; the measure."""
    policy = registry.policy("weekly:a").measure
    assert policy is not None
    measure = registry.measures("default").ensure(policy).id
    execute(
        f"INSERT INTO {CELLS} ({_columns(SUM)}) SELECT {measure}, 'weekly:' || n, "
        f"{CounterCell.Period.WEEK.value}, '{start.isoformat()}'::timestamptz, '', 0, "
        f"1 + floor({keys} * random() ^ 3) FROM generate_series(1, {keys}) AS n"
    )
    execute(
        f"INSERT INTO {RANKS} ({_columns(RANK)}) SELECT measure_id, period, start, "
        f"key, value FROM {CELLS} WHERE measure_id = {measure}"
    )
    known(CounterCell, CounterRank)
    return measure


def _columns(kind: Kind) -> str:
    return ", ".join(names(kind.columns))


CASES: Mapping[str, Work] = {
    "top": Work(partial(reading, KEYS), slices=1, less=partial(reading, LESS)),
}
