"""Locks of MySQL and MariaDB: nothing of ours deadlocks, and an epoch is folded when it is over."""

from __future__ import annotations

import random
import threading
from collections import Counter as Sums
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import OperationalError, connection, connections, transaction

from django_counters import clock
from django_counters.exceptions import InsufficientCount
from django_counters.models import (
    Counter,
    CounterActor,
    CounterDelta,
    CounterHorizon,
    CounterMeasure,
)
from django_counters.stores.sql.actors import SqlActors
from django_counters.stores.sql.dialects.mysql.ledger import EPOCHS
from django_counters.stores.sql.horizon import SqlHorizon
from django_counters.stores.sql.partitions import SqlPartitions
from django_counters.stores.sql.session import Session
from django_counters.testing import assert_counts, override_counters
from django_counters.upkeep.verify import verify
from tests.concurrency import crossing
from tests.concurrency.book import Book
from tests.concurrency.crowd import PATIENCE, Threads, processes
from tests.concurrency.leading import until
from tests.concurrency.servers import connected, execute, waiting
from tests.settling import roll_up

pytestmark = [
    pytest.mark.skipif(
        connection.vendor != "mysql", reason=f"is about MySQL; this run is on {connection.vendor}"
    ),
    pytest.mark.django_db(transaction=True),
]
SELLERS, STOCK = 16, 3_000
_HELD = "SELECT value FROM django_counters_counter"


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


@pytest.mark.parametrize("locked", [True, False], ids=["locked", "without the lock"])
def test_who_commits_late_is_rolled_up_once(locked: bool) -> None:
    """Each value is right; it is wrong where nobody holds the epoch of his entries."""
    Counter.objects.create(key="a", value=0, outside=0)
    book = Book.of(crossing.CROWD)
    committed = sum(processes(crossing.CROWD, crossing.append_late, 20, book, locked))
    roll_up()
    total = Counter.objects.get(key="a").value
    assert (total == committed == Counter.objects.value("a")) is locked
    assert (verify().drifts == []) is locked


def test_an_epoch_that_is_folded_while_it_is_waited_for_is_not_taken() -> None:
    """Who waits for it takes the next one: what is folded already would miss the entry."""
    Counter.objects.create(key="a", value=0, outside=0)
    CounterDelta.objects.append("a", 1)
    with connected("roller"), ThreadPoolExecutor(1) as pool:
        with transaction.atomic(using="roller"):
            ((oldest,),) = execute(f"SELECT MAX(id) FROM {EPOCHS} FOR UPDATE", using="roller")
            appending = pool.submit(_append)
            until(lambda: waiting() == 1 or appending.done(), "one who waits for the epoch")
            # Another connection begins the next one, as each rollup does before it folds.
            execute(f"INSERT INTO {EPOCHS} (id) VALUES (%s)", oldest + 1)
            folded = SqlHorizon("roller").fold()
            assert folded is not None
            assert folded.entries == 1
        appending.result(PATIENCE)
    assert [entry.xid for entry in CounterDelta.objects.order_by("seq")] == [oldest, oldest + 1]
    assert Counter.objects.value("a") == 3
    roll_up()
    assert Counter.objects.get(key="a").value == 3


def test_two_rollups_leave_an_epoch_to_those_who_append() -> None:
    """One that begins the next epoch, and then is overtaken, does not fold it."""
    Counter.objects.create(key="a", value=0, outside=0)
    CounterDelta.objects.append("a", 1)

    def overtake(execute: Callable[..., Any], sql: str, *rest: Any) -> Any:
        held = sql.startswith("SELECT") and "FOR UPDATE" in sql
        if held and CounterHorizon.objects.get().horizon == before:
            assert SqlHorizon("default").fold() is not None
        return execute(sql, *rest)

    roll_up()
    before = CounterHorizon.objects.get().horizon
    with connected("roller"), connections["roller"].execute_wrapper(overtake):
        assert SqlHorizon("roller").fold() is None
    assert CounterDelta.objects.append("a", 2).token
    roll_up()
    assert Counter.objects.get(key="a").value == 3


def test_what_is_appended_as_a_rebase_ends_is_rolled_up() -> None:
    """No rollup begins an epoch beside it: the fence would stand above the entries of that one."""
    Counter.objects.create(key="a", value=0, outside=0)
    CounterDelta.objects.append("a", 1)
    roll_up()
    appending: list[Future[None]] = []

    def beside(execute: Callable[..., Any], sql: str, *rest: Any) -> Any:
        if "INTO @djc_edge" in sql:
            SqlHorizon("default").fold()
            appending.append(pool.submit(_append))
            until(lambda: waiting() == 1 or appending[0].done(), "one who appends")
        return execute(sql, *rest)

    with (
        ThreadPoolExecutor(1) as pool,
        connected("rebaser"),
        connections["rebaser"].execute_wrapper(beside),
    ):
        SqlHorizon("rebaser").rebase()
        appending[0].result(PATIENCE)
    assert Counter.objects.value("a") == 3
    roll_up()
    assert Counter.objects.get(key="a").value == 3


def test_a_rebase_of_more_than_the_server_can_gather_is_an_error() -> None:
    """It changes all totals, or none; a server has room for a packet."""

    def cramped(execute: Callable[..., Any], sql: str, *rest: Any) -> Any:
        return execute(sql.replace("_len = 4294967295", "_len = 8"), *rest)

    for key in ("a", "b", "c"):
        CounterDelta.objects.append(key, 1)
    roll_up()
    Counter.objects.update(value=7)
    with connection.execute_wrapper(cramped), pytest.raises(OperationalError, match="JSON_TABLE"):
        SqlHorizon("default").rebase()
    assert set(Counter.objects.values_list("value", flat=True)) == {7}
    assert SqlHorizon("default").rebase() == 3
    assert_counts({"a": 1, "b": 1, "c": 1})


def test_an_entry_that_is_not_archived_is_not_deleted() -> None:
    """The last one stays, also where another one comes while it is asked for."""
    Counter.objects.create(key="a", value=0, outside=0)
    CounterDelta.objects.append("a", 1)
    roll_up()
    with ThreadPoolExecutor(1) as pool:

        def beside(execute: Callable[..., Any], sql: str, *rest: Any) -> Any:
            if "SELECT delta, xid, seq" in sql:
                pool.submit(_append).result(PATIENCE)
            return execute(sql, *rest)

        with connection.execute_wrapper(beside):
            assert SqlPartitions("default").forget(clock.utc()) == 0
    assert CounterDelta.objects.count() == 2
    roll_up()
    assert SqlHorizon("default").rebase() == 0
    assert Counter.objects.get(key="a").value == 3


def test_who_counts_while_all_who_have_counted_are_forgotten_stays() -> None:
    """As many rows are deleted as are told: the counter loses as many."""
    measure = CounterMeasure.objects.create(name="likes", zone="UTC")
    first = datetime(2026, 1, 1, tzinfo=UTC)

    def like(actor: str, hour: int) -> None:
        moment = first + timedelta(hours=hour)
        CounterActor.objects.create(measure=measure, key="a", actor=actor, created_at=moment)

    like("bob", 2)
    like("eve", 3)
    with connected("holder"), ThreadPoolExecutor(1) as pool:
        with transaction.atomic(using="holder"):
            held = CounterActor.objects.using("holder").filter(actor="eve")
            assert len(held.select_for_update()) == 1
            forgetting = pool.submit(_forget, measure.pk)
            until(lambda: waiting() == 1 or forgetting.done(), "one who waits for an actor")
            like("ann", 1)
        assert forgetting.result(PATIENCE) == 2
    assert [one.actor for one in CounterActor.objects.all()] == ["ann"]


def _forget(measure: int) -> int:
    try:
        with transaction.atomic():
            return SqlActors(Session("default")).forget(measure, "a")
    finally:
        connections.close_all()


def _append() -> None:
    _alone(CounterDelta.objects.append, "a", 2)


def _alone(call: Callable[..., object], *given: object) -> None:
    """Make a call on a connection of its own."""
    try:
        call(*given)
    finally:
        connections.close_all()
