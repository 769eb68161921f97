"""The promises of combining, with every interleaving built by hand."""

from __future__ import annotations

import os
import signal
import threading
import traceback
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from typing import Any

import pytest
from django.db import OperationalError, connection, connections, transaction

from django_counters.exceptions import (
    Contention,
    CounterOverflow,
    CounterUnavailable,
    OutcomeUnknown,
)
from django_counters.models import Counter
from django_counters.registry import registry
from django_counters.testing import assert_counts, override_counters
from django_counters.types import INT8
from django_counters.values import Counted, Result
from tests.concurrency.crowd import Threads
from tests.concurrency.leading import (
    COMBINED,
    PATIENCE,
    Execute,
    combining,
    outcome,
    queue,
    until,
)
from tests.stores.test_failures import closed_database, wait_for_lock

pytestmark = pytest.mark.django_db(transaction=True)
needs_threads = pytest.mark.postgresql
LOWEST, HIGHEST = INT8


class Interrupted(BaseException):
    """As a KeyboardInterrupt: nobody expects it."""


@pytest.fixture(autouse=True)
def _combined() -> Iterator[None]:
    # A queue of its own for each test: one that failed may have left somebody in it.
    registry.forget_strategies()
    with override_counters(c=COMBINED):
        yield


def recorded(statements: list[str]) -> Execute:
    def record(execute: Execute, sql: str, *arguments: Any) -> Any:
        statements.append(sql)
        return execute(sql, *arguments)

    return record


def writes(sql: str) -> bool:
    return "INSERT" in sql or "UPDATE" in sql or "_add" in sql


@pytest.mark.django_db(transaction=True, databases=["default", "other"])
def test_a_closed_database() -> None:
    with closed_database() as alias, pytest.raises(CounterUnavailable):
        Counter.objects.increment("c:a", using=alias)
    assert Counter.objects.increment("c:a", using="other") == 1


@needs_threads
class TestQueue:
    def test_all_that_wait_are_one_statement_with_values_in_one_order(self) -> None:
        statements: list[str] = []
        others: list[str] = []
        with queue() as crowd:
            calls = [
                crowd.join("c:a", 1, recorded(statements)),
                crowd.join("c:b", 10, recorded(others)),
                crowd.join("c:a", -3, recorded(others)),
                crowd.join("c:a", 100, recorded(others)),
                crowd.join("c:b", 1, recorded(others)),
            ]
        assert [outcome(call) for call in calls] == [1, 10, -2, 98, 11]
        assert outcome(crowd.leader) == 1
        assert (len(statements), others) == (1, [])
        assert_counts({"c:a": 98, "c:b": 11, "c:leader": 1})
        assert Counter.objects.increment("c:a") == 99

    def test_nobody_is_answered_before_the_commit(self) -> None:
        """The statement has been executed and holds its rows, but its answer is not there yet."""
        executed, go = threading.Event(), threading.Event()

        def hold(execute: Execute, sql: str, *arguments: Any) -> Any:
            if not writes(sql):
                return execute(sql, *arguments)
            with transaction.atomic():
                answer = execute(sql, *arguments)
                executed.set()
                assert go.wait(PATIENCE)
            return answer

        with queue() as crowd:
            calls = [crowd.join("c:a", wrapper=hold), crowd.join("c:a"), crowd.join("c:b")]
            crowd.release()
            assert executed.wait(PATIENCE)
            early = wait(calls, 0.5, FIRST_COMPLETED).done
            seen = Counter.objects.values_of(["c:a", "c:b"])
            go.set()
        assert (early, seen) == (set(), {"c:a": 0, "c:b": 0})
        assert [outcome(call) for call in calls] == [1, 2, 1]
        assert_counts({"c:a": 2, "c:b": 1})

    def test_changes_that_come_to_nothing(self) -> None:
        with queue() as crowd:
            calls = [crowd.join("c:a", by) for by in (5, -2, -3)] + [crowd.join("c:b", 4)]
        assert [outcome(call) for call in calls] == [5, 3, 0, 4]
        assert_counts({"c:a": 0, "c:b": 4})

    def test_what_is_not_combined_waits_for_nobody(self) -> None:
        def in_transaction() -> Result:
            with transaction.atomic():
                return Counter.objects.increment("c:a")

        alone: list[Callable[[], Any]] = [
            in_transaction,
            lambda: Counter.objects.increment("c:a", ceiling=9),
            lambda: Counter.objects.increment_many({"c:a": 1, "c:b": 1})["c:a"],
            lambda: Counter.objects.increment("plain", 4),
            lambda: Counter.objects.value("c:a") + 2,
        ]
        with queue() as crowd, ThreadPoolExecutor(1) as thread:
            values = [thread.submit(call).result(PATIENCE) for call in alone]
            thread.submit(connections.close_all).result(PATIENCE)
            assert not crowd.leader.done()
        assert values == [1, 2, 3, 4, 5]

    @pytest.mark.django_db(transaction=True, databases=["default", "other"])
    def test_databases_are_not_mixed(self) -> None:
        assert combining("other") is not combining()
        with queue() as crowd:
            call = crowd.join("c:a", 2)
            assert Counter.objects.increment("c:a", 7, using="other") == 7
            assert not call.done()
        assert outcome(call) == 2
        assert_counts({"c:a": 7}, using="other")

    def test_a_child_process_can_count_while_its_parent_is_busy(self) -> None:
        connection.close()
        with queue() as crowd:
            call = crowd.join("c:a")
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)
                child = os.fork()
            if not child:
                _count_and_exit()
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
            assert not call.done()
        assert outcome(call) == 2

    def test_an_execute_wrapper_may_count_too(self) -> None:
        """As one that counts queries: its thread would wait for itself."""

        def counts(execute: Execute, sql: str, *arguments: Any) -> Any:
            if not nested:
                nested.append(Counted(0))
                nested[0] = Counter.objects.increment("c:queries")
            return execute(sql, *arguments)

        nested: list[Result] = []
        with queue() as crowd:
            call = crowd.join("c:a", wrapper=counts)
            crowd.release()
        assert (outcome(call), nested) == (1, [1])


def _count_and_exit() -> None:
    """What the child process does; it must not come back into the test run."""
    signal.alarm(PATIENCE)
    try:
        os._exit(0 if Counter.objects.increment("c:a") == 1 else 2)
    except BaseException:
        traceback.print_exc()
        os._exit(1)


@needs_threads
class TestErrors:
    def test_an_overflow_reaches_its_call_alone(self) -> None:
        Counter.objects.increment("c:full", HIGHEST - 1)
        with queue() as crowd:
            steps = [("c:a", 1), ("c:full", 1), ("c:full", 5), ("c:b", 2), ("c:full", -1)]
            calls = [crowd.join(key, by) for key, by in steps]
        assert [outcome(call) for call in calls] == [1, HIGHEST, CounterOverflow, 2, HIGHEST - 1]
        assert_counts({"c:a": 1, "c:b": 2, "c:full": HIGHEST - 1})

    @pytest.mark.parametrize("steps", [(5, -10), (5, -5)])
    @pytest.mark.parametrize("sign", [1, -1])
    def test_every_value_on_the_way_fits(self, steps: tuple[int, int], sign: int) -> None:
        """No order of single calls has a value that the column cannot hold."""
        edge = HIGHEST if sign > 0 else LOWEST
        Counter.objects.increment("c:full", edge)
        with queue() as crowd:
            calls = [crowd.join("c:full", sign * by) for by in steps]
        counted = 0
        for by, call in zip(steps, calls, strict=True):
            answer = outcome(call)
            if answer is not CounterOverflow:
                counted += sign * by
                assert LOWEST <= answer <= HIGHEST
        assert_counts({"c:full": edge + counted})

    def test_an_error_after_the_statement_counts_nothing_twice(self) -> None:
        """What the statement counted is counted, whatever fails when unchanged values are read."""

        def fails_to_read(execute: Execute, sql: str, *arguments: Any) -> Any:
            if not writes(sql):
                raise OperationalError("injected")
            return execute(sql, *arguments)

        with queue() as crowd:
            steps = [("c:a", 1), ("c:zero", 5), ("c:zero", -5), ("c:b", 2)]
            calls = [crowd.join("c:a", 1, fails_to_read)]
            calls += [crowd.join(key, by) for key, by in steps[1:]]
        check(steps, [outcome(call) for call in calls])

    def test_a_connection_lost_before_the_answer(self) -> None:
        Counter.objects.increment("c:a")
        steps = [("c:a", 1), ("c:b", 2), ("c:a", 4)]
        with queue() as crowd:
            calls = [crowd.join(key, by) for key, by in steps]
            with transaction.atomic():
                Counter.objects.increment("c:a", 100)
                crowd.release()
                with connection.cursor() as cursor:
                    cursor.execute("SELECT pg_terminate_backend(%s)", [wait_for_lock()])
                outcomes = [outcome(call) for call in calls]
        assert outcomes == [OutcomeUnknown] * 3
        check([("c:a", 101), *steps], [1, *outcomes])
        assert Counter.objects.increment("c:b") in (1, 3)

    def test_an_update_that_the_database_swallows(self) -> None:
        table = Counter._meta.db_table
        Counter.objects.increment("c:swallowed")
        with connection.cursor() as cursor:
            cursor.execute(
                "CREATE FUNCTION swallow() RETURNS trigger LANGUAGE plpgsql AS "
                "$$ BEGIN RETURN NULL; END $$"
            )
            cursor.execute(
                f"CREATE TRIGGER swallow BEFORE UPDATE ON {table} FOR EACH ROW "
                "WHEN (OLD.key = 'c:swallowed') EXECUTE FUNCTION swallow()"
            )
        try:
            with queue() as crowd:
                calls = [crowd.join(key) for key in ("c:a", "c:swallowed", "c:b")]
            assert [outcome(call) for call in calls] == [1, Contention, 1]
            # Nobody tries for ever alone either.
            with pytest.raises(Contention):
                Counter.objects.increment("c:swallowed", ceiling=9)
        finally:
            with connection.cursor() as cursor:
                cursor.execute("DROP FUNCTION swallow() CASCADE")
        assert_counts({"c:a": 1, "c:b": 1, "c:swallowed": 1})


def check(steps: list[tuple[str, int]], outcomes: list[Any]) -> None:
    """An int: counted. `OutcomeUnknown`: counted or not. Any other error: not counted."""
    for key in {key for key, _ in steps}:
        possible = {0}
        for (name, by), answer in zip(steps, outcomes, strict=True):
            if name == key and isinstance(answer, int):
                possible = {value + by for value in possible}
            elif name == key and answer is OutcomeUnknown:
                possible |= {value + by for value in possible}
        value = Counter.objects.value(key)
        assert value in possible, f"{key} is {value}, the calls said {outcomes}"


@needs_threads
class TestInterruptions:
    @pytest.mark.parametrize("counts", [False, True])
    def test_of_the_leader(self, counts: bool) -> None:
        """The others hear of it, and whoever comes next is served."""

        def interrupt(execute: Execute, *arguments: Any) -> Any:
            if counts:
                execute(*arguments)
            raise Interrupted

        steps = [("c:a", 1), ("c:a", 2), ("c:b", 3)]
        with queue() as crowd:
            calls = [crowd.join("c:a", 1, interrupt), *(crowd.join(*step) for step in steps[1:])]
        outcomes = [outcome(call) for call in calls]
        assert outcomes == [Interrupted, OutcomeUnknown, OutcomeUnknown]
        check(steps, [OutcomeUnknown, *outcomes[1:]])
        assert Counter.objects.increment("c:b") == 1 + 3 * counts

    def test_of_the_main_thread_by_a_signal(self) -> None:
        """It leaves the queue before anybody serves it: it is not counted."""

        def handler(*_: object) -> None:
            raise Interrupted

        def interrupt() -> None:
            until(lambda: len(combining()._waiting) == 2, "the main thread in the queue")
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR1)

        before = signal.signal(signal.SIGUSR1, handler)
        try:
            with queue() as crowd, ThreadPoolExecutor(1) as pool:
                call = crowd.join("c:a", 5)
                sent = pool.submit(interrupt)
                with pytest.raises(Interrupted):
                    Counter.objects.increment("c:a")
                sent.result(PATIENCE)
        finally:
            signal.signal(signal.SIGUSR1, before)
        assert outcome(call) == 5
        assert_counts({"c:a": 5})


@needs_threads
def test_one_key() -> None:
    """A crowd: each call returns another value, and finds it in the database when it returns."""
    times = 250

    def work(number: int) -> list[int]:
        values: list[int] = []
        for _ in range(times):
            values.append(Counter.objects.increment("c:hot").value or 0)
            # On this thread's own connection: the statement was as a rule sent by another one.
            assert Counter.objects.value("c:hot") >= values[-1]
        return values

    values = [value for part in Threads(16).run(work) for value in part]
    assert sorted(values) == list(range(1, 16 * times + 1))
    assert_counts({"c:hot": 16 * times})
