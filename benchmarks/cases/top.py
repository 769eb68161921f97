"""The counters that counted most in a week, from an index and by adding up their cells."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from itertools import count
from typing import Any

from django.db.models import Case, F, Sum, When
from django.utils import timezone

from benchmarks.cases.cells import COUNTERS, DE, FEW, counted
from benchmarks.cases.flush import flushed, keys_of
from benchmarks.cases.peers_database import known
from benchmarks.harness import Pair, Work, adds_up, expect, loop, remain
from benchmarks.inspection import execute
from django_counters.intake.flush import flush
from django_counters.measure import RANK, SUM, Kind
from django_counters.models import Counter, CounterCell, CounterRank
from django_counters.registry import registry
from django_counters.stores.sql.dialects.cells import names

KEYS = 1_000_000
LESS = 20_000  # of them, where time is short
FIRST = 10
CELLS, RANKS = CounterCell._meta.db_table, CounterRank._meta.db_table
_weeks = count(2)


@contextmanager
def reading(keys: int, *, rise: bool) -> Iterator[Pair]:
    """The first ones of a week that is over, each of whose keys has one cell."""
    today = timezone.localtime().replace(hour=0, minute=0, second=0, microsecond=0)
    start = (today - timedelta(days=today.weekday(), weeks=2 * next(_weeks))).replace(hour=0)
    before = start - timedelta(weeks=1)
    measure = _counted(keys, start, before)
    week = Counter.objects.series(namespace="weekly").per("week")
    asked = week.between(start, start + timedelta(days=1))
    all_cells = CounterCell.objects.filter(measure_id=measure, period=CounterCell.Period.WEEK)

    def mine() -> int:
        found = asked.top(FIRST, against=1 if rise else None)
        return sum(row.value - (row.before or 0) for row in found)

    def theirs() -> int:
        rows: Any = all_cells.filter(start__in=[start, before] if rise else [start])
        signed = Case(When(start=start, then=F("value")), default=-F("value"))
        sums = rows.values("key").annotate(amount=Sum(signed))
        return sum(row["amount"] for row in sums.order_by("-amount")[:FIRST])

    verify = remain((mine, theirs()), (theirs, mine()))
    try:
        yield Pair(loop(mine, 50), loop(theirs, 1), verify)
    finally:
        for table in (CELLS, RANKS):
            execute(f"DELETE FROM {table} WHERE measure_id = {measure}")


def _counted(keys: int, *starts: Any) -> int:
    """Let each key have a cell, and its rank, in some weeks; the measure."""
    policy = registry.policy("weekly:a").measure
    assert policy is not None
    measure = registry.measures("default").ensure(policy).id
    period = CounterCell.Period.WEEK.value
    for start in starts:
        moment = f"'{start.isoformat()}'::timestamptz"
        execute(
            f"INSERT INTO {CELLS} ({_columns(SUM)}) SELECT {measure}, 'weekly:' || n, "
            f"{period}, {moment}, '', 0, 1 + floor({keys} * random() ^ 3) "
            f"FROM generate_series(1, {keys}) AS n"
        )
        execute(
            f"INSERT INTO {RANKS} ({_columns(RANK)}) SELECT measure_id, period, start, "
            f"key, value FROM {CELLS} WHERE measure_id = {measure} AND start = {moment}"
        )
    known(CounterCell, CounterRank)
    return measure


def _columns(kind: Kind) -> str:
    return ", ".join(names(kind.columns))


@contextmanager
def landing(counters: int) -> Iterator[Pair]:
    """A landing of as many counters with the same cells, whose sums are not ranked."""
    flush()  # what other cases have left
    mine, theirs = keys_of("top", counters, "ranked"), keys_of("top", counters, "hourly")
    verify = adds_up(partial(_ranked, mine), lambda: counted(theirs))
    yield Pair(partial(flushed, mine, DE), partial(flushed, theirs, DE), verify)


def _ranked(keys: Sequence[str]) -> int:
    """What is counted; the ranks of the day hold as much."""
    total = counted(keys)
    found = CounterRank.objects.filter(key__in=keys, period=CounterCell.Period.DAY)
    expect("ranks of the day", found.aggregate(all=Sum("value"))["all"] or 0, total)
    return total


def _readings(*, rise: bool) -> Work:
    prepare: Callable[[int], Any] = partial(reading, rise=rise)
    return Work(partial(prepare, KEYS), slices=1, less=partial(prepare, LESS))


CASES: Mapping[str, Work] = {"top": _readings(rise=False), "top-rise": _readings(rise=True)}
LANDINGS: Mapping[str, Work] = {
    "top-flush": Work(partial(landing, COUNTERS), slices=1, less=partial(landing, FEW)),
}
