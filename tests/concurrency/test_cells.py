"""Cells under many writers: in every snapshot they sum to what their totals have changed by.

And ranks are sums of cells.
"""

from __future__ import annotations

import random
import threading
from typing import Any

import pytest
from django.db import connection, transaction
from django.db.models import Sum

from django_counters.cached.flush import flush
from django_counters.contrib.series.models import CounterCell
from django_counters.contrib.top import CounterRank
from django_counters.models import Counter
from django_counters.testing import override_counters
from django_counters.upkeep import rollup
from tests.concurrency.book import Book
from tests.concurrency.crowd import Threads, processes
from tests.concurrency.servers import hurry

pytestmark = [pytest.mark.many_writers, pytest.mark.django_db(transaction=True)]
WRITERS = 6
PER: dict[str, Any] = {"PER": ["hour", "day"], "TAGS": {"country": 2}}
TOP: dict[str, Any] = {**PER, "TOP": ["day", "week"]}
NAMESPACES: dict[str, Any] = {
    "stock": {"FLOOR": 0, **TOP},
    "plain": TOP,
    "likes": {"STRATEGY": "sharded", **PER},
    "orders": {"STRATEGY": "ledger", **PER},
}
RANKS = (CounterCell.Period.DAY, CounterCell.Period.WEEK)
KEYS = [f"{name}:{number}" for name in NAMESPACES for number in range(3)]


def test_every_snapshot_is_right() -> None:
    """Transactions of several keys in any order, rollups and readers, all at the same time."""
    book = Book.of(WRITERS)
    with override_counters(**NAMESPACES):
        for country in "DE", "FR":  # the crowd's third one is one too many, whoever comes first
            Counter.objects.increment_many(dict.fromkeys(KEYS, 1), tags={"country": country})
    answers = processes(WRITERS + 2, _among_others, 40, book)
    assert [answer for answer in answers if answer] == []
    with override_counters(**NAMESPACES):
        rollup()
        values = Counter.objects.values_of(KEYS)
    assert sum(values.values()) > 0
    for period in CounterCell.Period.HOUR, CounterCell.Period.DAY:
        assert _cells(period) == {key: value for key, value in values.items() if value}
    ranked = {key: value for key, value in values.items() if key[:5] in ("stock", "plain")}
    assert all(_ranks(period) == ranked for period in RANKS)
    countries = set(CounterCell.objects.values_list("tags", flat=True))
    assert countries == {"DE", "FR", "~"}


def _among_others(number: int, times: int, book: Book) -> object:
    """Be a writer, the one who rolls up, or a reader, who tells what was wrong."""
    with override_counters(**NAMESPACES):
        if number < WRITERS:
            _write(number, times, book)
        while not all(book.ended):
            if number > WRITERS:
                rollup()
            elif wrong := _differing():
                return wrong
    return None


def _write(number: int, times: int, book: Book) -> None:
    chance = random.Random(number)
    try:
        for turn in range(times):
            deltas = {key: chance.randint(1, 9) for key in chance.sample(KEYS, 4)}
            tags = {"country": chance.choice(["DE", "FR", "US"])}
            with transaction.atomic():
                if turn % 3:
                    Counter.objects.increment_many(deltas, tags=tags)
                else:
                    with Counter.objects.collect():
                        for key, by in deltas.items():
                            Counter.objects.increment(key, by, tags=tags)
                if turn % 7 == 0:
                    transaction.set_rollback(True)
    finally:
        book.ended[number] = 1


def _differing() -> dict[str, tuple[int, int]]:
    """What one snapshot has of totals and of cells, where it is not the same."""
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        values = Counter.objects.values_of(KEYS)
        found = _cells(CounterCell.Period.HOUR)
        days = _cells(CounterCell.Period.DAY)
        ranks = [_ranks(period) for period in RANKS]
    wrong = {
        f"rank of {key}": (value, days[key])
        for rank in ranks
        for key, value in rank.items()
        if value != days[key]
    }
    return wrong or {
        key: (value, found.get(key, 0))
        for key, value in values.items()
        if value != found.get(key, 0)
    }


def _cells(period: int) -> dict[str, int]:
    rows = CounterCell.objects.filter(period=period).values("key").annotate(sum=Sum("value"))
    return {row["key"]: row["sum"] for row in rows}


def _ranks(period: int) -> dict[str, int]:
    return dict(CounterRank.objects.filter(period=period).values_list("key", "value"))


def test_flushes_and_other_writers_do_not_deadlock() -> None:
    """Both add to the same cells after a change of strategy."""
    sums = processes(4, _count_and_flush, 25)
    expected = {key: sum(one[key] for one in sums) for key in sums[0]}
    flush()
    assert _cells(CounterCell.Period.DAY) == expected
    assert all(_ranks(period) == expected for period in RANKS)
    assert {c.key: c.value for c in Counter.objects.filter(key__in=expected)} == expected


def _count_and_flush(number: int, times: int) -> dict[str, int]:
    """Processes whose settings differ: some count in Redis, some in the row itself."""
    chance = random.Random(number)
    keys = [f"views:{one}" for one in range(8)]
    added = dict.fromkeys(keys, 0)
    cached = {"STRATEGY": "cached", "ON_REDIS_DOWN": "raise", "OPTIONS": {"timeout": 10}}
    with override_counters(views={**TOP, **(cached if number % 2 else {})}):
        for _ in range(times):
            batch = {key: chance.randint(1, 5) for key in chance.sample(keys, 4)}
            Counter.objects.increment_many(batch, tags={"country": chance.choice("ABC")})
            for key, by in batch.items():
                added[key] += by
            if number == 1:
                flush()
    return added


@pytest.mark.postgresql  # on MySQL two connections may have one shard
def test_nobody_waits_for_the_cells_of_others() -> None:
    """A transaction that is open holds its shard and the cells of that, no more."""
    with override_counters(**NAMESPACES):
        Counter.objects.increment_many({"likes:a": 1, "orders:a": 1})
        with transaction.atomic():
            Counter.objects.increment("likes:a", tags={"country": "DE"})
            told = Threads(4).run(lambda _: _hurried("likes:a"))
        assert told == ["counted"] * 4
        assert _cells(CounterCell.Period.DAY)["likes:a"] == 6


def test_the_first_ones_do_not_wait_for_each_other() -> None:
    """Two transactions count by the same new measures, in another order each."""
    names = ["stock:a", "plain:a"]
    order = {0: names, 1: names[::-1]}
    met = threading.Barrier(2)

    def count(number: int) -> None:
        with transaction.atomic():
            for key in order[number]:
                Counter.objects.increment(f"{key}{number}")
                met.wait(60)

    with override_counters(**NAMESPACES):
        Threads(2).run(count)
        assert set(_cells(CounterCell.Period.DAY).values()) == {1}


def _hurried(key: str) -> str:
    hurry(2_000)
    with transaction.atomic():
        Counter.objects.increment(key, tags={"country": "DE"})
    return "counted"
