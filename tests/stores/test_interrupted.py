"""Statements and commits that somebody ends: unknown where nobody knows, and only there."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest
from django.db import DataError, OperationalError, connection, connections, transaction

from django_counters.errors import CounterError, OutcomeUnknown
from django_counters.models import Counter
from django_counters.stores.sql.batches import SqlBatches
from django_counters.stores.sql.session import Block, Session
from django_counters.testing import assert_counts
from tests.stores.test_failures import (
    CANCELLED,
    Late,
    beside,
    ended_while_waiting,
    fresh,  # noqa: F401 - a fixture
    wait_for_lock,
)
from tests.stores.test_wire import watched

pytestmark = [
    pytest.mark.rare,
    pytest.mark.postgresql,
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("fresh"),
]


def test_a_statement_that_is_cancelled_before_it_is_done() -> None:
    error = ended_while_waiting(CANCELLED, lambda: Counter.objects.increment("a"))
    assert isinstance(error, OperationalError)
    assert not isinstance(error, CounterError)
    assert_counts({"a": 1})


def test_by_a_cursor_nobody_knows_whether_it_was_done() -> None:
    """The driver's cursor tells the error alone, not what was answered before it."""

    def count() -> None:
        with watched():
            Counter.objects.increment("a")

    assert type(ended_while_waiting(CANCELLED, count)) is OutcomeUnknown

    def count_in_transaction() -> None:
        with transaction.atomic():
            count()

    error = ended_while_waiting(CANCELLED, count_in_transaction)
    assert isinstance(error, OperationalError)
    assert not isinstance(error, CounterError)


def test_an_error_after_the_statement_was_committed() -> None:
    """As the server answers where it is cancelled between its commit and its readiness."""
    session = Session("default")
    with pytest.raises(DataError):
        session.run("SELECT 1 / 0", ())
    with pytest.raises(OutcomeUnknown):
        session.run("SELECT 1; COMMIT; SELECT 1 / 0", ())
    with pytest.raises(DataError), transaction.atomic():
        session.run("SELECT 1; SELECT 1 / 0", ())
    assert Counter.objects.increment("a") == 1


@pytest.fixture
def slow_commits() -> Iterator[Callable[[], None]]:
    """A deferred trigger on the counters that waits in COMMIT until what is returned is called."""
    table = Counter._meta.db_table
    with connection.cursor() as cursor:
        cursor.execute(
            "CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS "
            "$$ BEGIN PERFORM pg_advisory_xact_lock_shared(4711); RETURN NULL; END $$"
        )
        cursor.execute(
            f"CREATE CONSTRAINT TRIGGER wait AFTER INSERT OR UPDATE ON {table} "
            "DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION wait()"
        )
    holder: Any = connections["default"].copy()
    with holder.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_lock(4711)")
    yield holder.close
    holder.close()
    connection.close()
    with connection.cursor() as cursor:
        cursor.execute("DROP FUNCTION wait() CASCADE")


def _land() -> None:
    batches = SqlBatches("default")
    with batches.landing(lock_timeout=30_000, statement_timeout=30_000):
        batches.land_named({"a": 1})


@pytest.mark.parametrize(
    "count",
    [
        lambda: Counter.objects.increment("a", token="t"),
        lambda: Counter.objects.adjust("a", by=1, reason="as it was counted", actor="me"),
        _land,
    ],
    ids=["token", "adjustment", "landing"],
)
def test_a_time_limit_in_commit(count: Callable[[], Any], slow_commits: Callable[[], None]) -> None:
    """Nobody knows; and what comes after it is committed."""

    def late(*_: object) -> None:
        raise Late

    before = signal.signal(signal.SIGALRM, late)
    try:
        with pytest.raises(OutcomeUnknown), beside() as call:
            call(_alarm)
            count()
    finally:
        signal.signal(signal.SIGALRM, before)
    slow_commits()
    Counter.objects.increment("b")
    assert not connection.in_atomic_block
    with beside() as call:
        assert call(lambda: Counter.objects.value("b")).result(30) == 1


def test_a_commit_that_is_cancelled(slow_commits: Callable[[], None]) -> None:
    """The server heeds a cancellation before and just after it has committed."""
    adjust = partial(Counter.objects.adjust, "a", by=1, reason="in the end", actor="me")
    with beside() as call:
        future = call(adjust)
        with connection.cursor() as cursor:
            cursor.execute(f"SELECT {CANCELLED}(%s)", [wait_for_lock()])
        assert type(future.exception(30)) is OutcomeUnknown
    slow_commits()
    assert_counts({"a": 0})


def _forgotten() -> Block:
    """A block whose end Python has left out."""
    block = Session("default").all_or_nothing()
    block.__enter__()
    Counter.objects.increment("a")
    return block


def test_a_block_that_python_forgot_to_end_ends_when_it_is_thrown_away() -> None:
    _forgotten()
    Counter.objects.increment("b")
    with beside() as call:
        assert call(lambda: Counter.objects.values_of(["a", "b"])).result(30) == {"a": 0, "b": 1}


def test_nor_does_it_end_in_the_middle_of_another_one() -> None:
    block = _forgotten()
    block._leave()
    with transaction.atomic():
        Counter.objects.increment("b")
        del block
    assert_counts({"a": 0, "b": 1})


def _alarm() -> None:
    wait_for_lock()
    signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGALRM)
