"""What a caller learns when the database fails: "not counted", or that nobody knows."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest
from django.db import OperationalError, connection, connections, transaction

from django_counters.exceptions import (
    CounterError,
    CounterUnavailable,
    InsufficientCount,
    OutcomeUnknown,
    ReadOnlyDatabase,
)
from django_counters.models import Counter
from django_counters.testing import assert_counts, override_counters

pytestmark = pytest.mark.django_db(transaction=True)


@contextmanager
def closed_database() -> Iterator[str]:
    """An alias behind which nothing answers."""
    other = connections["other"]
    settings = dict(other.settings_dict)
    raw, other.connection = other.connection, None
    other.settings_dict.update(NAME="/nowhere/at/all", HOST="/nowhere")
    try:
        yield "other"
    finally:
        other.connection = raw
        other.settings_dict.update(settings)


@pytest.mark.django_db(transaction=True, databases=["default", "other"])
def test_a_closed_database() -> None:
    calls: list[Callable[[str], Any]] = [
        lambda using: Counter.objects.increment("a", using=using),
        lambda using: Counter.objects.increment_many({"a": 1, "b": 1}, using=using),
        lambda using: Counter.objects.using(using).all().increment(),
        lambda using: Counter.objects.value("a", using=using),
        lambda using: Counter.objects.read("a", using=using),
    ]
    with closed_database() as alias:
        for call in calls:
            with pytest.raises(CounterUnavailable) as caught:
                call(alias)
            assert caught.value.using == "other"
            assert caught.value.__cause__ is not None
            assert isinstance(caught.value, OperationalError)


@pytest.mark.django_db(transaction=True, databases=["default", "other"])
def test_a_closed_database_where_bounds_hold() -> None:
    with (
        closed_database() as alias,
        override_counters(a={"FLOOR": 0}),
        pytest.raises(CounterUnavailable),
    ):
        Counter.objects.decrement_many({"a:1": 1, "a:2": 1}, using=alias)


@pytest.mark.postgres
def test_a_read_only_transaction() -> None:
    calls: list[Callable[[], Any]] = [
        lambda: Counter.objects.increment("a"),
        lambda: Counter.objects.decrement("a", floor=0),
        lambda: Counter.objects.increment_many({"a": 1, "b": 1}),
        lambda: Counter.objects.all().increment(),
    ]
    for call in calls:
        with pytest.raises(ReadOnlyDatabase) as caught, transaction.atomic():
            with connection.cursor() as cursor:
                cursor.execute("SET TRANSACTION READ ONLY")
            call()
        assert caught.value.using == "default"
    assert_counts({"a": 0, "b": 0})


@pytest.mark.skipif(connection.vendor != "sqlite", reason="a pragma of SQLite")
def test_a_read_only_database_file() -> None:
    with connection.cursor() as cursor:
        cursor.execute("PRAGMA query_only = ON")
        try:
            with pytest.raises(ReadOnlyDatabase):
                Counter.objects.increment("a")
        finally:
            cursor.execute("PRAGMA query_only = OFF")
    assert_counts({"a": 0})


def wait_for_lock() -> int:
    """The backend that waits for a row lock, as soon as there is one."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        with connection.cursor() as cursor:
            # Within a transaction the view is a snapshot, unless it is thrown away.
            cursor.execute("SELECT pg_stat_clear_snapshot()")
            cursor.execute(
                "SELECT pid FROM pg_stat_activity "
                "WHERE wait_event_type = 'Lock' AND datname = current_database()"
            )
            row = cursor.fetchone()
        if row:
            return int(row[0])
        time.sleep(0.01)
    raise AssertionError("nobody waits for a lock")


def killed_while_waiting(call: Callable[[], Any]) -> BaseException | None:
    """The error of a call whose connection is cut while its statement waits for a row."""

    def in_thread() -> Any:
        try:
            return call()
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as pool, transaction.atomic():
        Counter.objects.increment("a")
        future = pool.submit(in_thread)
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_terminate_backend(%s)", [wait_for_lock()])
        error = future.exception(30)
        transaction.set_rollback(True)
    return error


@pytest.mark.postgres
def test_a_connection_lost_before_the_answer() -> None:
    Counter.objects.increment("a")
    error = killed_while_waiting(lambda: Counter.objects.increment("a"))
    assert type(error) is OutcomeUnknown
    assert error.using == "default"
    assert_counts({"a": 1})


@pytest.mark.postgres
def test_a_connection_lost_inside_a_transaction_is_known_not_to_count() -> None:
    Counter.objects.increment("a")

    def in_transaction() -> None:
        with transaction.atomic():
            Counter.objects.increment("a")

    assert type(killed_while_waiting(in_transaction)) is CounterUnavailable
    # A bounded batch outside a transaction brings its own.
    with override_counters(b={"CEILING": 9}):
        many = {"a": 1, "b:x": 1}
        error = killed_while_waiting(lambda: Counter.objects.increment_many(many))
    assert type(error) is CounterUnavailable
    assert_counts({"a": 1, "b:x": 0})


@pytest.fixture
def dies_at_commit() -> Iterator[None]:
    """A deferred trigger on the counters that cuts the connection within COMMIT."""
    table = Counter._meta.db_table
    with connection.cursor() as cursor:
        cursor.execute(
            "CREATE FUNCTION die() RETURNS trigger LANGUAGE plpgsql AS "
            "$$ BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NULL; END $$"
        )
        cursor.execute(
            f"CREATE CONSTRAINT TRIGGER die AFTER INSERT ON {table} "
            "DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION die()"
        )
    yield
    connection.close()
    with connection.cursor() as cursor:
        cursor.execute("DROP FUNCTION die() CASCADE")


@pytest.mark.postgres
@pytest.mark.usefixtures("dies_at_commit")
def test_a_connection_lost_within_commit() -> None:
    """A bounded batch brings its own transaction: its COMMIT may be lost, too."""
    with override_counters(a={"CEILING": 9}), pytest.raises(OutcomeUnknown):
        Counter.objects.increment_many({"a:1": 1, "a:2": 1})
    connection.close()
    assert_counts({"a:1": 0, "a:2": 0})


@pytest.mark.postgres
def test_a_read_never_says_that_nobody_knows() -> None:
    table = Counter._meta.db_table

    def locked_out() -> None:
        try:
            Counter.objects.value("a")
        finally:
            connection.close()

    with transaction.atomic(), ThreadPoolExecutor(1) as pool:
        with connection.cursor() as cursor:
            cursor.execute(f"LOCK TABLE {table}")
            future = pool.submit(locked_out)
            cursor.execute("SELECT pg_terminate_backend(%s)", [wait_for_lock()])
        error = future.exception(30)
    assert type(error) is CounterUnavailable


@pytest.mark.postgres
def test_other_errors_of_the_database_pass_and_mean_not_counted() -> None:
    Counter.objects.increment("a")

    def impatient() -> None:
        with connection.cursor() as cursor:
            cursor.execute("SET lock_timeout = '50ms'")
        try:
            Counter.objects.increment("a")
        finally:
            connection.close()

    with transaction.atomic(), ThreadPoolExecutor(1) as pool:
        Counter.objects.increment("a")
        error = pool.submit(impatient).exception(30)
    assert isinstance(error, OperationalError)
    assert not isinstance(error, CounterError)
    assert_counts({"a": 2})


@pytest.mark.postgres
@pytest.mark.parametrize("level", ["REPEATABLE READ", "SERIALIZABLE"])
def test_stricter_isolation_never_counts_wrongly(level: str) -> None:
    """A change that met another one fails with the database's own error, and can be repeated."""
    Counter.objects.increment("a", 5)

    def meet() -> None:
        try:
            Counter.objects.increment("a", 10)
        finally:
            connection.close()

    with pytest.raises(OperationalError), transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute(f"SET TRANSACTION ISOLATION LEVEL {level}")
        assert Counter.objects.value("a") == 5
        with ThreadPoolExecutor(1) as pool:
            pool.submit(meet).result(30)
        assert Counter.objects.value("a") == 5
        with pytest.raises(InsufficientCount):
            Counter.objects.decrement("a", 6, floor=0)
        Counter.objects.decrement("a", 3, floor=0)
    assert_counts({"a": 15})


def test_a_database_of_an_unknown_kind_is_refused() -> None:
    from django.db.utils import NotSupportedError

    from django_counters.stores.sql.dialects import dialect_of

    class Oracle:
        vendor = "oracle"

    connections["oracle"] = Oracle()  # type: ignore[assignment]
    try:
        with pytest.raises(NotSupportedError, match="supported are: postgresql, sqlite"):
            dialect_of("oracle")
    finally:
        del connections["oracle"]


@pytest.mark.postgres
def test_a_trigger_that_swallows_updates_is_reported() -> None:
    """No endless loop where the database refuses for a reason of its own."""
    from django_counters.exceptions import Contention

    Counter.objects.increment("a")
    table = Counter._meta.db_table
    with connection.cursor() as cursor:
        cursor.execute(
            "CREATE FUNCTION swallow() RETURNS trigger LANGUAGE plpgsql AS "
            "$$ BEGIN RETURN NULL; END $$"
        )
        cursor.execute(
            f"CREATE TRIGGER swallow BEFORE UPDATE ON {table} "
            "FOR EACH ROW EXECUTE FUNCTION swallow()"
        )
        try:
            with pytest.raises(Contention):
                Counter.objects.increment("a")
        finally:
            cursor.execute("DROP FUNCTION swallow() CASCADE")
