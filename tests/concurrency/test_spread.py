"""Counters in shards and slots under many writers, with rollups and readers at the same time."""

from __future__ import annotations

import multiprocessing
import threading
import time
from collections import Counter as Sums
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest
from django.db import OperationalError, connection, transaction

from django_counters.exceptions import InsufficientCount
from django_counters.models import Counter, CounterShard, SlottedCounter
from django_counters.testing import assert_counts, override_counters
from django_counters.upkeep.rollup import rollup
from tests.concurrency import work
from tests.concurrency.crowd import PATIENCE, Threads, processes
from tests.testapp.models import Post, Song

pytestmark = [pytest.mark.postgres, pytest.mark.django_db(transaction=True)]
WRITERS, ROLLUPS, READERS = 16, 2, 2
Elsewhere = Callable[[Callable[[], Any]], Any]


@pytest.fixture(autouse=True)
def _mixed() -> Iterator[None]:
    with override_counters(**work.MIXED):
        yield


def ledger() -> work.Ledger:
    context = multiprocessing.get_context("forkserver")
    return work.Ledger(*(context.RawArray("q", WRITERS) for _ in range(3)))


def counted(kind: str, times: int) -> int:
    """Count with a crowd; every reading of it was right. What all of it has to add up to."""
    song = Song.objects.create()
    shared = ledger()
    crowd = WRITERS + ROLLUPS + READERS
    results = processes(crowd, work.spread, kind, song.pk, times, ROLLUPS, READERS, shared)
    observed = [seen for seen in results if seen]
    assert len(observed) == READERS
    for *wrong, last in observed:
        assert wrong == []
        assert last.value > 0, "the reader came too late to see anything"
    assert list(shared.attempted) == list(shared.acknowledged)
    return sum(shared.acknowledged)


class TestSnapshots:
    """In every snapshot acknowledged <= value <= attempted, and no reader sees it go back."""

    @pytest.mark.parametrize("times", [60, pytest.param(2000, marks=pytest.mark.slow)])
    def test_sharded(self, times: int) -> None:
        expected = counted("sharded", times)
        assert_counts({"likes:hot": expected})
        assert rollup().left == 0
        assert Counter.objects.get().value == expected

    @pytest.mark.parametrize("times", [40, pytest.param(500, marks=pytest.mark.slow)])
    def test_slotted_field(self, times: int) -> None:
        expected = counted("slotted", times)
        song = Song.objects.get()
        assert song.plays.read().value == expected
        assert rollup().left == 0
        assert Song.objects.get().plays == expected

    @pytest.mark.parametrize("times", [20, pytest.param(100, marks=pytest.mark.slow)])
    def test_slotted_by_name(self, times: int) -> None:
        expected = counted("by name", times)
        assert SlottedCounter.objects.value(Song.objects.get(), "downloads") == expected
        assert rollup().left == 0
        assert SlottedCounter.objects.get().count == expected


@pytest.mark.parametrize("one_by_one", [False, True])
@pytest.mark.parametrize("times", [250, pytest.param(1250, marks=pytest.mark.slow)])
def test_nobody_deadlocks(times: int, one_by_one: bool) -> None:
    """2,000 transactions (10,000 with --slow) that touch five of twenty keys in random order."""
    sums: Sums[str] = Sums()
    for added in processes(8, work.transactions_of_five, times, one_by_one):
        sums.update(added)
    assert_counts(sums)
    rollup()
    assert_counts(sums)


def test_old_and_new_code_side_by_side() -> None:
    post = Post.objects.create()
    sums: Sums[str] = Sums()
    for added in processes(8, work.old_and_new_code, 150, post.pk):
        sums.update(added)
    field = sums.pop("field")
    assert_counts(sums)
    assert post.likes.read().value == field
    assert rollup().left == 0
    assert_counts(sums)
    assert Post.objects.get().likes == field


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
                assert Counter.objects.decrement("stock:a") >= 0
                sold += 1
            except InsufficientCount:
                assert Counter.objects.value("stock:a") >= 0
                if last_chance:
                    return sold

    parts = [deliver, lambda: fold_until(all_there), *[buy] * 6]
    assert sum(Threads(len(parts)).run(lambda number: parts[number]())) == delivered
    assert_counts({"stock:a": 0})


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
            with transaction.atomic():
                with connection.cursor() as cursor:
                    cursor.execute("SET LOCAL lock_timeout = '2s'")
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


def like() -> int:
    return Counter.objects.increment("likes:a")


def like_and_undo() -> None:
    with transaction.atomic():
        like()
        transaction.set_rollback(True)


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

    def test_as_many_transactions_as_there_are_shards(self) -> None:
        CounterShard.objects.bulk_create(
            CounterShard(key="likes:a", shard=n, value=0) for n in range(20)
        )
        with held(*[like] * 20):
            assert_counts({"likes:a": 0})
        assert_counts({"likes:a": 20})
        assert set(CounterShard.objects.values_list("value", flat=True)) == {1}

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

    def test_a_reader_sees_what_is_committed(self, elsewhere: Elsewhere) -> None:
        like()
        with held(like):
            assert elsewhere(lambda: Counter.objects.value("likes:a")) == 1


def waiting() -> int:
    """How many connections wait for a lock."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT COUNT(*) FROM pg_stat_activity "
            "WHERE wait_event_type = 'Lock' AND datname = current_database()"
        )
        return int(cursor.fetchone()[0])


def test_more_transactions_than_shards_wait_and_succeed() -> None:
    """Four hold all shards, eight more wait for them; none fails, none makes a fifth."""
    for number in range(20):
        Counter.objects.increment("four:a", shard_key=number)
    CounterShard.objects.update(value=0)
    assert CounterShard.objects.count() == 4

    def change() -> int:
        return Counter.objects.increment("four:a")

    def change_and_close() -> None:
        try:
            change()
        finally:
            connection.close()

    with ThreadPoolExecutor(8) as pool:
        with held(*[change] * 4):
            late = [pool.submit(change_and_close) for _ in range(8)]
            deadline = time.monotonic() + PATIENCE
            while waiting() < 8:
                assert time.monotonic() < deadline, "they do not wait"
                assert not any(future.done() for future in late)
        for future in late:
            future.result(PATIENCE)
    assert_counts({"four:a": 12})
    assert CounterShard.objects.count() == 4


def test_a_crowd_never_makes_more_shards_than_allowed() -> None:
    def work(number: int) -> None:
        for _ in range(50):
            with transaction.atomic():
                Counter.objects.increment("four:a")
                Counter.objects.increment("likes:a")

    Threads(12).run(work)
    assert_counts({"four:a": 600, "likes:a": 600})
    assert CounterShard.objects.filter(key="four:a").count() <= 4
    assert CounterShard.objects.filter(key="likes:a").count() <= 64
