"""Counters in shards and slots under many writers, with rollups and readers at the same time."""

from __future__ import annotations

import threading
from collections import Counter as Sums
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest
from django.db import OperationalError, connection, transaction

from django_counters.errors import InsufficientCount
from django_counters.models import Counter, CounterShard, SlottedCounter
from django_counters.testing import assert_counts, override_counters
from django_counters.types import Result
from django_counters.upkeep import rollup
from tests.concurrency import work
from tests.concurrency.crowd import PATIENCE, Threads, processes
from tests.concurrency.rolling import SUBJECTS, counted
from tests.concurrency.servers import hurry, waiting
from tests.concurrency.waiting import until
from tests.settling import roll_up
from tests.testapp.models import Song

pytestmark = [pytest.mark.many_writers, pytest.mark.django_db(transaction=True)]
Elsewhere = Callable[[Callable[[], Any]], Any]


@pytest.fixture(autouse=True)
def _mixed() -> Iterator[None]:
    with override_counters(**work.MIXED):
        yield


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(kind, marks=pytest.mark.needs("ledger") if kind == "ledger" else ())
        for kind in SUBJECTS
    ],
)
def test_every_snapshot_is_right(kind: str) -> None:
    """In each one acknowledged <= value <= attempted, and no reader sees it go back."""
    song = Song.objects.create()
    expected = counted(kind, 80, song.pk)
    subject = SUBJECTS[kind](song.pk)
    assert subject.read() == expected
    roll_up()
    assert subject.read() == subject.total() == expected


@pytest.mark.parametrize("way", work.WAYS)
def test_nobody_deadlocks(way: str) -> None:
    """800 transactions that touch five of twenty keys in random order."""
    sums: Sums[str] = Sums()
    for added in processes(8, work.transactions_of_five, 100, way):
        sums.update(added)
    assert_counts(sums)
    rollup()
    assert_counts(sums)


def fold_until(event: threading.Event) -> int:
    while not event.is_set():
        rollup()
    return 0


def test_exact_decrements_never_oversell_what_waits_in_shards() -> None:
    """Deliveries are sharded, buyers are exact, rollups move the stock from one to the other.

    The value never falls below zero, and what was delivered is sold in the end, no more, no less.
    """
    delivered, all_there = 400, threading.Event()

    def deliver() -> int:
        for _ in range(delivered):
            CounterShard.objects.increment("stock:a")
        all_there.set()
        return 0

    def buy() -> int:
        sold = 0
        while True:
            last_chance = all_there.is_set()
            try:
                left = Counter.objects.decrement("stock:a").value
                assert left is not None
                assert left >= 0
                sold += 1
            except InsufficientCount:
                assert Counter.objects.value("stock:a") >= 0
                if last_chance:
                    return sold

    parts = [deliver, lambda: fold_until(all_there), *[buy] * 6]
    assert sum(Threads(len(parts)).run(lambda number: parts[number]())) == delivered
    assert_counts({"stock:a": 0})


@pytest.mark.postgresql  # on MySQL two connections may have one shard
def test_somebody_counts_before_each_statement_of_a_rollup(elsewhere: Elsewhere) -> None:
    """What is taken away is what is added, whatever came between any two statements."""
    counted = elsewhere(like)

    def count_first(execute: Callable[..., Any], *call: Any) -> Any:
        nonlocal counted
        elsewhere(like)
        counted += 1
        return execute(*call)

    with connection.execute_wrapper(count_first):
        rollup()
    assert counted > 5
    assert_counts({"likes:a": counted})
    rollup()
    assert Counter.objects.get().value == counted


@contextmanager
def held(*changes: Callable[[], Any]) -> Iterator[None]:
    """Each change in a transaction of its own, one after the other; all stay open for the block."""
    go, made = threading.Event(), threading.Semaphore(0)

    def hold(change: Callable[[], Any]) -> None:
        try:
            hurry(2_000)
            with transaction.atomic():
                change()
                made.release()
                assert go.wait(PATIENCE)
        finally:
            connection.close()

    with ThreadPoolExecutor(len(changes)) as pool:
        try:
            for change in changes:
                future = pool.submit(hold, change)
                while not made.acquire(timeout=0.1):
                    if future.done():
                        future.result()
            yield
        finally:
            go.set()


def like() -> Result:
    return Counter.objects.increment("likes:a")


def like_and_undo() -> None:
    with transaction.atomic():
        like()
        transaction.set_rollback(True)


@pytest.mark.postgresql  # the same
class TestNobodyWaits:
    """A connection that would have to wait for a lock gives up and fails the test."""

    def test_a_writer_whose_shard_is_held_makes_another(self, elsewhere: Elsewhere) -> None:
        like()
        with held(like):
            assert elsewhere(like) == 2
        assert_counts({"likes:a": 3})
        assert CounterShard.objects.count() == 2
        for _ in range(10):
            like()
        assert CounterShard.objects.count() == 2

    def test_the_first_writers_of_a_new_counter_seldom_meet(self, elsewhere: Elsewhere) -> None:
        """Nobody sees the row of the first one yet; another chooses the same number by chance."""
        waited = 0
        with held(like):
            for _ in range(10):
                try:
                    elsewhere(like_and_undo)
                except OperationalError:
                    waited += 1
        assert waited <= 3
        assert_counts({"likes:a": 1})

    def test_the_same_for_a_record(self, elsewhere: Elsewhere) -> None:
        song = Song.objects.create()
        song.plays.increment()
        SlottedCounter.objects.increment(song, "downloads")

        def both() -> None:
            Song.objects.get().plays.increment()
            SlottedCounter.objects.increment(song, "downloads")

        with held(both):
            elsewhere(both)
        assert song.plays.read().value == 3
        assert SlottedCounter.objects.value(song, "downloads") == 3


@pytest.mark.postgresql
def test_more_transactions_than_shards_wait_and_succeed() -> None:
    """Four hold all shards, eight more wait for them; none fails, none makes a fifth."""
    for number in range(20):
        Counter.objects.increment("four:a", shard_key=number)
    CounterShard.objects.update(value=0)
    assert CounterShard.objects.count() == 4

    def change() -> Result:
        return Counter.objects.increment("four:a")

    def change_and_close() -> None:
        try:
            change()
        finally:
            connection.close()

    with ThreadPoolExecutor(8) as pool:
        with held(*[change] * 4):
            late = [pool.submit(change_and_close) for _ in range(8)]
            until(lambda: waiting() == 8, "eight who wait")
        for future in late:
            future.result(PATIENCE)
    assert_counts({"four:a": 12})
    assert CounterShard.objects.count() == 4
