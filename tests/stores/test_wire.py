"""Statements without a cursor: they do what those of a cursor do."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from decimal import Decimal
from threading import Event
from typing import Any
from unittest import mock
from uuid import UUID

import pytest
from django.db import DataError, ProgrammingError, connection, connections, transaction
from django.db.backends.utils import CursorWrapper
from django.test import override_settings

from django_counters.conf import EXACT
from django_counters.errors import OutcomeUnknown
from django_counters.models import Counter
from django_counters.registry import registry
from django_counters.stores.sql.session import Session
from django_counters.stores.sql.tables import NAMED
from django_counters.testing import assert_counts
from tests.stores.test_failures import beside, wait_for_lock

pytestmark = [pytest.mark.postgresql, pytest.mark.django_db(transaction=True)]


EXECUTE = "django_counters.stores.sql.wire.execute"


class Interrupted(Exception):
    """A time limit, as Celery raises one wherever the task happens to be."""


@pytest.fixture(autouse=True)
def _fresh() -> Iterator[None]:
    """What a test does to its connection ends with it."""
    connection.close()
    yield
    connection.close()


def driver() -> Any:
    """The connection of psycopg."""
    connection.ensure_connection()
    return connections["default"].connection


def run(sql: str, *params: Any) -> Any:
    """The first row of a statement that the stores run."""
    return Session("default").run(sql, params)[0]


def by_cursor(sql: str, *params: Any) -> Any:
    """The same, as a cursor gives it."""
    with connection.cursor() as cursor:
        cursor.execute(sql, params)
        return cursor.fetchone()


@contextmanager
def watched() -> Iterator[list[str]]:
    """What Django's cursors execute meanwhile, seen by a tool that replaces their method."""
    seen: list[str] = []
    execute = CursorWrapper.execute

    def note(self: CursorWrapper, sql: str, params: Any = None) -> Any:
        seen.append(sql)
        return execute(self, sql, params)

    with mock.patch.object(CursorWrapper, "execute", note):
        yield seen


def test_an_increment_needs_no_cursor() -> None:
    """Else all of this file tests something else."""
    Counter.objects.increment("a")
    with mock.patch.object(driver().cursor_factory, "execute", side_effect=AssertionError):
        assert Counter.objects.increment("a") == 2
        # As Django leaves its connections after each SimpleTestCase.
        vars(connections["default"])["cursor"] = connections["default"].cursor
        assert Counter.objects.increment("a") == 3
    assert_counts({"a": 3})


def test_the_first_statement_of_a_transaction_begins_it_in_the_same_message() -> None:
    pid = driver().info.backend_pid

    def last() -> Any:
        return by_cursor("SELECT query FROM pg_stat_activity WHERE pid = %s", pid)

    with beside() as call, transaction.atomic():
        Counter.objects.increment("a")
        (query,) = call(last).result(30)
        assert query.startswith("BEGIN;SELECT django_counters_add(")
        Counter.objects.increment("a")
        transaction.set_rollback(True)
    assert_counts({"a": 0})
    with transaction.atomic():
        Counter.objects.increment("a")
    assert_counts({"a": 1})


def test_with_pgpool_begin_is_a_message_of_its_own() -> None:
    pid = driver().info.backend_pid

    def last() -> Any:
        return by_cursor("SELECT query FROM pg_stat_activity WHERE pid = %s", pid)

    with override_settings(COUNTERS_PGPOOL=True), beside() as call, transaction.atomic():
        Counter.objects.increment("a")
        (query,) = call(last).result(30)
        assert query.startswith("SELECT django_counters_add(")
        with transaction.atomic():
            Counter.objects.increment("a")
    assert_counts({"a": 2})


@pytest.mark.parametrize(
    ("option", "asked", "answer"),
    [
        ("isolation_level", "transaction_isolation", "repeatable read"),
        ("deferrable", "transaction_deferrable", "on"),
        ("read_only", "transaction_read_only", "on"),
    ],
)
def test_what_the_connection_wants_of_transactions_is_begun(
    option: str, asked: str, answer: str
) -> None:
    from psycopg import IsolationLevel

    setattr(driver(), option, IsolationLevel.REPEATABLE_READ if "level" in option else True)
    with transaction.atomic():
        assert run(f"SELECT current_setting('{asked}')") == (answer,)
        assert run(f"SELECT current_setting('{asked}')") == (answer,)


@pytest.mark.rare
def test_threads_that_share_a_connection_begin_once() -> None:
    """Whether to begin is asked when nobody else can."""
    notices: list[str] = []
    driver().add_notice_handler(lambda told: notices.append(told.message_primary))
    connection.set_autocommit(False)
    shared = connections["default"]
    shared.inc_thread_sharing()

    def count() -> Any:
        connections["default"] = shared
        return Session("default").run("SELECT 1", ())

    try:
        with ThreadPoolExecutor(4) as pool:
            for _ in range(50):
                assert list(pool.map(lambda _: count(), range(4))) == [[(1,)]] * 4
                connection.rollback()
    finally:
        shared.dec_thread_sharing()
        connection.set_autocommit(True)
    assert notices == []


def test_another_encoding_is_noticed() -> None:
    key = "schlüssel"
    Counter.objects.increment(key)
    driver().execute("SET client_encoding TO LATIN1")
    assert run("SELECT octet_length(%s::text)", key) == (len(key.encode()),)
    assert Counter.objects.increment(key) == 2


def test_notifications_are_handed_out_with_the_answer_that_they_came_with() -> None:
    told: list[str] = []
    driver().add_notify_handler(lambda note: told.append(note.payload))
    driver().execute("LISTEN wire")
    run("SELECT pg_notify('wire', 'now')::text")
    assert told == ["now"]


def test_why_the_server_ended_the_connection_is_told() -> None:
    with pytest.raises(OutcomeUnknown) as caught:
        run("SELECT pg_terminate_backend(pg_backend_pid())")
    cause: Any = caught.value.__cause__
    assert cause.__cause__.sqlstate == "57P01"


def test_autocommit_begins_nothing() -> None:
    assert run("SELECT pg_current_xact_id()::text") != run("SELECT pg_current_xact_id()::text")
    connection.set_autocommit(False)
    assert run("SELECT pg_current_xact_id()::text") == run("SELECT pg_current_xact_id()::text")
    connection.rollback()
    connection.set_autocommit(True)


def test_within_a_pipeline() -> None:
    Counter.objects.increment("a")
    with driver().pipeline():
        assert Counter.objects.increment("a") == 2
    assert_counts({"a": 2})


def test_an_error_of_the_server_within_a_pipeline_is_raised() -> None:
    Counter.objects.increment("a")
    with pytest.raises(ProgrammingError, match="nowhere"), driver().pipeline():
        Session("default").run("INSERT INTO nowhere VALUES (%s)", (1,))


VALUES: list[Any] = [
    *(1, -1, 2**62, None, True, 1.5, Decimal("1.50"), "", "it's 100 %s %% \\ ünï", b"\x00'\\"),
    *([1, None], ["a", "b'\"{},"], UUID(int=7), datetime(2026, 3, 29, 1, tzinfo=UTC)),
]


def test_values_go_there_and_back_as_with_a_cursor() -> None:
    text = "SELECT %s AS v, '100 %%' AS percent"
    for value in VALUES:
        assert run(text, value) == by_cursor(text, value)
        assert type(run(text, value)[0]) is type(by_cursor(text, value)[0])


@pytest.fixture
def _tokyo() -> Iterator[None]:
    """The zone is another one than when the connection was opened."""
    driver()
    there = connections["default"]
    with mock.patch.dict(there.settings_dict, TIME_ZONE="Asia/Tokyo"):
        vars(there).pop("timezone", None)
        yield
    vars(there).pop("timezone", None)


@pytest.mark.usefixtures("_tokyo")
def test_times_are_in_the_zone_of_the_settings() -> None:
    moment = "SELECT '2026-03-29 01:00:00'::timestamp AT TIME ZONE current_setting('TimeZone')"
    assert run(moment) == by_cursor(moment)
    assert str(run(moment)[0].tzinfo) == "Asia/Tokyo"


def test_an_error_is_that_of_a_cursor() -> None:
    errors = []
    for way in (run, by_cursor):
        with pytest.raises(DataError) as caught, transaction.atomic():
            way("SELECT %s::bigint / 0", 1)
        cause: Any = caught.value.__cause__
        errors.append((str(caught.value), type(cause), cause.diag.sqlstate, cause.sqlstate))
    assert errors[0] == errors[1]
    assert errors[0][2] == "22012"


def test_more_than_a_socket_takes_at_once() -> None:
    """Both sides have more to say than fits between them."""
    many = [f"{number:0>20000}" for number in range(1_000)]
    ((back,),) = Session("default").run("SELECT %s::text[]", (many,))
    assert back == many


class TestWhoeverLooksSeesAll:
    """See ``test_cursors`` for those who wrap and log statements."""

    def test_one_who_replaces_the_method_of_cursors(self) -> None:
        Counter.objects.increment("a")
        with watched() as seen:
            Counter.objects.increment("a")
        assert len(seen) == 1
        Counter.objects.increment("a")
        assert len(seen) == 1

    def test_one_whose_cursors_the_driver_makes(self) -> None:
        seen: list[str] = []

        class Traced(driver().cursor_factory):  # type: ignore[misc]
            def execute(self, query: str, *rest: Any, **named: Any) -> Any:
                seen.append(query)
                return super().execute(query, *rest, **named)

        driver().cursor_factory = Traced
        session = Session("default")
        session.run("SELECT 1", ())
        session.run("SELECT 1", ())
        assert seen == ["SELECT 1", "SELECT 1"]

    def test_one_who_was_there_before(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("django_counters.stores.sql.session._UNTRACED", False)
        with watched() as seen:
            Session("default").run("SELECT 1", ())
        assert seen == ["SELECT 1"]


@contextmanager
def _held(key: str) -> Iterator[None]:
    """Another connection holds the row of a counter, and interrupts whoever waits for it."""
    holds, enough = Event(), Event()

    def hold() -> None:
        with transaction.atomic():
            Counter.objects.increment(key)
            holds.set()
            try:
                wait_for_lock()
            finally:
                os.kill(os.getpid(), signal.SIGALRM)
            assert enough.wait(30)
            transaction.set_rollback(True)

    with beside() as call:
        done = call(hold)
        assert holds.wait(30)
        try:
            yield
        finally:
            enough.set()
            done.result(30)


@pytest.fixture
def _time_limit() -> Iterator[None]:
    def interrupt(*_: object) -> None:
        raise Interrupted

    before = signal.signal(signal.SIGALRM, interrupt)
    yield
    signal.signal(signal.SIGALRM, before)


@pytest.mark.rare
@pytest.mark.usefixtures("_time_limit")
class TestInterrupted:
    def test_right_after_it_was_sent(self) -> None:
        """The moment that no lock shows: libpq has sent, and has not begun to wait."""
        Counter.objects.increment("a")
        strategy: Any = registry.strategy(EXACT, NAMED, "default")
        from psycopg.generators import execute

        wire = strategy._totals._session._kept.kept._wire
        there = wire._libpq

        class Sends:
            def __getattr__(self, name: str) -> Any:
                return getattr(there, name)

            def send_query(self, text: bytes) -> None:
                there.send_query(b"SELECT pg_sleep(60);" + text)
                raise Interrupted

        with (
            mock.patch.object(wire, "_libpq", Sends()),
            mock.patch(EXECUTE, side_effect=lambda _: execute(there)),
            pytest.raises(Interrupted),
        ):
            Counter.objects.increment("a")
        assert run("SELECT 1") == (1,)
        assert_counts({"a": 1})

    def test_the_statement_ends_and_the_connection_stays(self) -> None:
        Counter.objects.increment("a")
        before = driver()
        with _held("a"):
            with pytest.raises(Interrupted):
                Counter.objects.increment("a")
            assert driver() is before
            assert run("SELECT 1") == (1,)
        assert_counts({"a": 1})
        assert Counter.objects.increment("a") == 2

    def test_within_a_transaction_it_takes_all_with_it(self) -> None:
        Counter.objects.increment("a")
        with _held("a"), pytest.raises(Interrupted), transaction.atomic():
            Counter.objects.increment("b")
            Counter.objects.increment("a")
        assert_counts({"a": 1, "b": 0})

    def test_what_came_too_early_is_said_again(self) -> None:
        """The server ignores it while it has not begun with the statement."""
        Counter.objects.increment("a")
        before = driver()
        really = before.cancel_safe
        said: list[float] = []

        def early(*, timeout: float) -> None:
            said.append(timeout)
            if len(said) > 1:
                really(timeout=timeout)

        with mock.patch.object(before, "cancel_safe", early), _held("a"):
            with pytest.raises(Interrupted):
                Counter.objects.increment("a")
            assert len(said) == 2
            assert driver() is before
        assert_counts({"a": 1})

    def test_one_that_does_not_end_loses_its_connection(self) -> None:
        Counter.objects.increment("a")
        refused = mock.patch.object(driver(), "cancel_safe", side_effect=OSError)
        with refused, _held("a"):
            with pytest.raises(Interrupted):
                Counter.objects.increment("a")
            assert driver().broken
        connection.close()
        # The server notices only when it has something to say: it may have counted.
        assert Counter.objects.increment("a") in (2, 3)

    def test_a_second_interruption_is_not_swallowed(self) -> None:
        Counter.objects.increment("a")
        again = mock.patch.object(driver(), "cancel_safe", side_effect=SystemExit)
        with again, _held("a"), pytest.raises(SystemExit):
            Counter.objects.increment("a")
        assert driver().broken
