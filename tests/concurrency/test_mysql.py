"""Locks of MySQL and MariaDB: nothing of ours deadlocks."""

from __future__ import annotations

import random
import threading
from collections import Counter as Sums
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.db import connection, connections, transaction

from django_counters.errors import InsufficientCount
from django_counters.models import Counter, CounterAdjustment
from django_counters.testing import assert_counts, override_counters
from tests.concurrency import crossing
from tests.concurrency.crowd import PATIENCE, Threads, processes
from tests.concurrency.servers import connected, execute, waiting
from tests.concurrency.waiting import until

pytestmark = [
    pytest.mark.rare,
    pytest.mark.skipif(
        connection.vendor != "mysql", reason=f"is about MySQL; this run is on {connection.vendor}"
    ),
    pytest.mark.django_db(transaction=True),
]
SELLERS, STOCK = 16, 3_000
_HELD = "SELECT value FROM django_counters_counter"


def forget() -> int:
    return Counter.objects.forget("new")


def adjust() -> CounterAdjustment:
    return Counter.objects.adjust("new", to=3, reason="recount", actor="ann")


@pytest.mark.parametrize("times", [125, pytest.param(1_250, marks=pytest.mark.slow)])
def test_sorted_batches_do_not_deadlock(times: int) -> None:
    """Eight processes; a deadlock would be an error of one of them."""
    sums: Sums[str] = Sums()
    for added in processes(8, crossing.batches, times):
        sums.update(added)
    assert_counts(sums)


@pytest.mark.parametrize("route", [None, "one"], ids=["total", "shard"])
def test_who_begins_a_row_and_takes_it_back_leaves_no_deadlock(route: str | None) -> None:
    """Sixteen begin at once, and half of them take it back, while the others wait to begin."""
    crowd, turns = 16, 20
    together = threading.Barrier(crowd)

    def begin(number: int) -> Sums[str]:
        chance, kept = random.Random(number), Sums[str]()
        for turn in range(turns):
            together.wait(30)
            for _ in range(3):
                with transaction.atomic():
                    Counter.objects.increment(f"new:{turn}", number + 1, shard_key=route)
                    is_kept = chance.random() < 0.5
                    transaction.set_rollback(not is_kept)
                kept[f"new:{turn}"] += (number + 1) * is_kept
        return kept

    sums: Sums[str] = Sums()
    with override_counters(new={"STRATEGY": "sharded" if route else "exact"}):
        for kept in Threads(crowd).run(begin):
            sums.update(kept)
        assert_counts(sums)


@pytest.mark.parametrize("other", [forget, adjust], ids=["forget", "adjust"])
def test_who_forgets_a_row_that_is_taken_back_leaves_no_deadlock(other: Callable[[], Any]) -> None:
    """Two wait for a row that a third transaction has made and takes back."""
    with connected("maker"), ThreadPoolExecutor(2) as pool:
        with transaction.atomic(using="maker"):
            Counter.objects.increment("new", 5, using="maker")
            both = [pool.submit(_alone, call) for call in (forget, other)]
            until(lambda: waiting() == 2, "both wait for the row")
            transaction.set_rollback(True, using="maker")
        for one in both:
            one.result(PATIENCE)


@pytest.mark.parametrize("level", ["READ COMMITTED", "REPEATABLE READ"])
def test_a_floor_is_exact(level: str) -> None:
    """Each unit is sold once, and what was told is one chain of values."""
    Counter.objects.increment("stock:a", STOCK)
    told = [left for one in processes(SELLERS, crossing.sell, level) for left in one]
    assert sorted(told) == list(range(STOCK))
    assert_counts({"stock:a": 0})


def test_a_refusal_does_not_wait_for_the_row() -> None:
    """Others hold it nearly always while a stock is sold out."""

    def hold(execute_it: Callable[..., Any], sql: str, *rest: Any) -> Any:
        if "INSERT INTO" in sql:
            execute(f"{_HELD} WHERE `key` = 'stock:a' FOR UPDATE", using="holder")
        return execute_it(sql, *rest)

    Counter.objects.increment("stock:a")
    with (
        override_counters(stock={"FLOOR": 0}),
        connected("holder", "buyer"),
        transaction.atomic(using="holder"),
        connections["buyer"].execute_wrapper(hold),
        pytest.raises(InsufficientCount),
    ):
        Counter.objects.decrement("stock:a", 2, using="buyer")


def test_who_begins_a_counter_waits_for_who_holds_the_gap() -> None:
    """Its row is missing, so there is none to wait for; however often it tries to insert one."""
    with connected("reader"), ThreadPoolExecutor(1) as pool:
        execute("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ", using="reader")
        with transaction.atomic(using="reader"):
            assert not execute(f"{_HELD} WHERE `key` = 'new' FOR UPDATE", using="reader")
            one = pool.submit(_alone, Counter.objects.increment, "new", 4)
            until(lambda: waiting() == 1 or one.done(), "one who waits for the gap")
            assert not one.done()
        one.result(PATIENCE)
    assert_counts({"new": 4})


def _alone(call: Callable[..., object], *given: object) -> None:
    """Make a call on a connection of its own."""
    try:
        call(*given)
    finally:
        connections.close_all()
