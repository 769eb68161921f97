"""What a caller learns when the database fails: "not counted", or that nobody knows."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from typing import Any
from unittest import mock

import pytest
from django.db import OperationalError, connection, connections, models, transaction

from django_counters.contrib import series
from django_counters.errors import (
    CounterError,
    CounterUnavailable,
    InsufficientCount,
    OutcomeUnknown,
    ReadOnlyDatabase,
)
from django_counters.models import Counter
from django_counters.registry import registry
from django_counters.stores.sql.batches import SqlBatches
from django_counters.stores.sql.session import Session
from django_counters.testing import assert_counts, override_counters
from tests.concurrency.servers import backend, end, waiters

pytestmark = [pytest.mark.rare, pytest.mark.django_db(transaction=True)]
Beside = Callable[[Callable[[], Any]], "Future[Any]"]
TERMINATED, CANCELLED = "pg_terminate_backend", "pg_cancel_backend"


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
        lambda using: Counter.objects.decrement_many({"a": 1, "floor:b": 1}, using=using),
        lambda using: Counter.objects.using(using).all().increment(),
        lambda using: Counter.objects.value("a", using=using),
        lambda using: Counter.objects.read("a", using=using),
        *(
            lambda using, key=key: series.of(key).using(using).per("day").last(2).list()
            for key in ("counted:a", "orders:a", "recorded:a")
        ),
        lambda using: series.of("cached:a").using(using).as_of,
        lambda using: registry.kept(SqlBatches, using).sources(),
        _collect,
    ]
    declared: dict[str, dict[str, Any]] = {
        "floor": {"FLOOR": 0},
        "counted": {"PER": ["day"]},
        "orders": {"STRATEGY": "ledger"},
        "recorded": {"HISTORY": "1d"},
        "cached": {"STRATEGY": "cached", "PER": ["day"]},
    }
    with closed_database() as alias, override_counters(**declared):
        for call in calls:
            with pytest.raises(CounterUnavailable) as caught:
                call(alias)
            assert caught.value.using == "other"
            assert caught.value.__cause__ is not None
            assert isinstance(caught.value, OperationalError)


def _collect(using: str) -> None:
    with Counter.objects.collect(using=using):
        Counter.objects.increment("a", using=using)


@pytest.mark.postgresql
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
        if found := waiters():
            return found[0]
        time.sleep(0.01)
    raise AssertionError("nobody waits for a lock")


@contextmanager
def beside() -> Iterator[Beside]:
    """Makes a call in another thread, on a connection of its own, without waiting for it."""

    def call(work: Callable[[], Any]) -> Any:
        with closing(connection):
            return work()

    with ThreadPoolExecutor(1) as pool:
        yield lambda work: pool.submit(call, work)


def ended_while_waiting(how: str, work: Callable[[], Any]) -> BaseException | None:
    """The error of a call whose statement, or its connection, is ended while it waits for a row."""
    Counter.objects.increment("a")
    with beside() as call, transaction.atomic():
        Counter.objects.increment("a")
        future = call(work)
        with connection.cursor() as cursor:
            cursor.execute(f"SELECT {how}(%s)", [wait_for_lock()])
        error = future.exception(30)
        transaction.set_rollback(True)
    return error


@pytest.mark.many_writers
def test_a_server_that_is_away_when_django_connects_anew_after_commit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What that error says is not about COMMIT, whose answer was lost."""
    django: Any = connection
    commit, settings = django._commit, dict(connection.settings_dict)

    def lost() -> None:
        mine = backend()
        with beside() as call:
            call(lambda: end(mine)).result(30)
        connection.settings_dict.update(HOST="/nowhere")
        commit()

    monkeypatch.setattr(connection, "_commit", lost)
    try:
        with override_counters(a={"CEILING": 9}), pytest.raises(OutcomeUnknown):
            Counter.objects.increment_many({"a:1": 1, "a:2": 1})
    finally:
        monkeypatch.undo()
        connection.close()
        connection.settings_dict.update(settings)
    assert_counts({"a:1": 0, "a:2": 0})


class Late(Exception):
    """A time limit of a task, which comes wherever the task happens to be."""


@pytest.fixture
def fresh() -> Iterator[None]:
    """Whatever a test leaves behind, the next one has a connection of its own."""
    yield
    connection.in_atomic_block = False
    connection.close()


@pytest.mark.many_writers
@pytest.mark.usefixtures("fresh")
def test_a_transaction_that_is_interrupted_as_it_begins() -> None:
    """The server has begun it, and Django does not know: what comes after it is committed."""
    begin = vars(type(connections["default"]))["_set_autocommit"]

    def late(autocommit: bool) -> None:
        begin(connections["default"], autocommit)
        raise Late

    with mock.patch.object(connections["default"], "_set_autocommit", late), pytest.raises(Late):
        Counter.objects.increment("a", token="t")
    Counter.objects.increment("a")
    with beside() as call:
        assert call(lambda: Counter.objects.value("a")).result(30) == 1


@pytest.mark.postgresql
def test_a_connection_lost_before_the_answer() -> None:
    error = ended_while_waiting(TERMINATED, lambda: Counter.objects.increment("a"))
    assert type(error) is OutcomeUnknown
    assert error.using == "default"
    assert_counts({"a": 1})


@pytest.mark.postgresql
def test_a_connection_lost_inside_a_transaction_is_known_not_to_count() -> None:
    def in_transaction() -> None:
        with transaction.atomic():
            Counter.objects.increment("a")

    assert type(ended_while_waiting(TERMINATED, in_transaction)) is CounterUnavailable
    # A bounded batch outside a transaction brings its own.
    with override_counters(b={"CEILING": 9}):
        many = {"a": 1, "b:x": 1}
        error = ended_while_waiting(TERMINATED, lambda: Counter.objects.increment_many(many))
    assert type(error) is CounterUnavailable
    assert_counts({"a": 2, "b:x": 0})


@contextmanager
def lost_at_commit(model: type[models.Model]) -> Iterator[None]:
    """A deferred trigger on a table that cuts the connection within COMMIT."""
    with connection.cursor() as cursor:
        cursor.execute(
            "CREATE FUNCTION die() RETURNS trigger LANGUAGE plpgsql AS "
            "$$ BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NULL; END $$"
        )
        cursor.execute(
            f"CREATE CONSTRAINT TRIGGER die AFTER INSERT OR UPDATE ON {model._meta.db_table} "
            "DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION die()"
        )
    yield
    connection.close()
    with connection.cursor() as cursor:
        cursor.execute("DROP FUNCTION die() CASCADE")


@pytest.fixture
def dies_at_commit() -> Iterator[None]:
    with lost_at_commit(Counter):
        yield


@pytest.mark.postgresql
@pytest.mark.usefixtures("dies_at_commit")
def test_a_connection_lost_within_commit() -> None:
    """A bounded batch brings its own transaction: its COMMIT may be lost, too."""
    with override_counters(a={"CEILING": 9}), pytest.raises(OutcomeUnknown):
        Counter.objects.increment_many({"a:1": 1, "a:2": 1})
    connection.close()
    assert_counts({"a:1": 0, "a:2": 0})


@pytest.mark.postgresql
def test_a_read_never_says_that_nobody_knows() -> None:
    with transaction.atomic(), beside() as call:
        with connection.cursor() as cursor:
            cursor.execute(f"LOCK TABLE {Counter._meta.db_table}")
            future = call(lambda: Counter.objects.value("a"))
            cursor.execute("SELECT pg_terminate_backend(%s)", [wait_for_lock()])
        error = future.exception(30)
    assert type(error) is CounterUnavailable


@pytest.mark.postgresql
def test_a_connection_lost_at_the_end_of_a_savepoint() -> None:
    """Django leaves the error of ROLLBACK TO SAVEPOINT out, and tells the next statement of it."""
    session = Session("default")
    with pytest.raises(CounterUnavailable, match="the connection was lost"), transaction.atomic():
        Counter.objects.increment("a")
        with suppress(KeyError), session.all_or_nothing(), beside() as call:
            number = backend()
            call(lambda: end(number)).result(30)
            raise KeyError
        Counter.objects.increment("a")
    connection.close()
    assert_counts({})


@pytest.mark.postgresql
def test_other_errors_of_the_database_pass_and_mean_not_counted() -> None:
    Counter.objects.increment("a")

    def impatient() -> None:
        with connection.cursor() as cursor:
            cursor.execute("SET lock_timeout = '50ms'")
        Counter.objects.increment("a")

    with transaction.atomic(), beside() as call:
        Counter.objects.increment("a")
        error = call(impatient).exception(30)
    assert isinstance(error, OperationalError)
    assert not isinstance(error, CounterError)
    assert_counts({"a": 2})


@pytest.mark.postgresql
@pytest.mark.parametrize("level", ["REPEATABLE READ", "SERIALIZABLE"])
def test_stricter_isolation_never_counts_wrongly(level: str) -> None:
    """A change that met another one fails with the database's own error, and can be repeated."""
    Counter.objects.increment("a", 5)
    with pytest.raises(OperationalError), transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute(f"SET TRANSACTION ISOLATION LEVEL {level}")
        assert Counter.objects.value("a") == 5
        with beside() as call:
            call(lambda: Counter.objects.increment("a", 10)).result(30)
        assert Counter.objects.value("a") == 5
        with pytest.raises(InsufficientCount):
            Counter.objects.decrement("a", 6, floor=0)
        Counter.objects.decrement("a", 3, floor=0)
    assert_counts({"a": 15})
