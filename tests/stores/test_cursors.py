"""Cursors that stay open: as safe as new ones."""

from __future__ import annotations

import asyncio
from threading import Thread
from typing import Any

import pytest
from django.core.exceptions import SynchronousOnlyOperation
from django.db import Error, connection, transaction
from django.test.utils import CaptureQueriesContext

from django_counters.models import Counter
from django_counters.stores.sql.cursors import KeptCursor
from django_counters.testing import assert_counts

pytestmark = pytest.mark.django_db(transaction=True)


def wrapper() -> Any:
    """The present connection itself; ``django.db.connection`` is a proxy."""
    from django.db import connections

    return connections["default"]


def test_a_cursor_is_made_once() -> None:
    kept = KeptCursor()
    assert kept.of(wrapper()) is kept.of(wrapper())


@pytest.mark.postgres
def test_a_new_connection_gets_a_new_cursor() -> None:
    kept = KeptCursor()
    first = kept.of(wrapper())
    wrapper().close()
    assert kept.of(wrapper()) is not first
    assert kept.of(wrapper()).cursor.connection is wrapper().connection


@pytest.mark.postgres
def test_counting_goes_on_after_the_connection_was_closed() -> None:
    Counter.objects.increment("a")
    connection.close()
    Counter.objects.increment("a")
    with pytest.raises(Error), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SELECT pg_terminate_backend(pg_backend_pid())")
    connection.close()
    Counter.objects.increment("a")
    assert_counts({"a": 3})


def test_each_thread_has_its_own() -> None:
    kept = KeptCursor()
    mine = kept.of(wrapper())
    theirs: list[Any] = []

    def other() -> None:
        theirs.append(kept.cursor)

    thread = Thread(target=other)
    thread.start()
    thread.join()
    assert mine is not None
    assert theirs == [None]


def test_queries_are_logged_and_wrapped() -> None:
    Counter.objects.increment("a")
    seen: list[str] = []

    def note(execute: Any, sql: str, *rest: Any) -> Any:
        seen.append(sql)
        return execute(sql, *rest)

    with CaptureQueriesContext(connection) as captured:
        Counter.objects.increment("a")
    with connection.execute_wrapper(note):
        Counter.objects.increment("a")
    assert len(captured) == 1
    assert len(seen) == 1


def test_a_cursor_that_somebody_put_onto_the_connection_is_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    Counter.objects.increment("a")
    calls: list[str] = []
    original = wrapper().cursor

    def cursor(*args: Any, **kwargs: Any) -> Any:
        calls.append("cursor")
        return original(*args, **kwargs)

    monkeypatch.setattr(wrapper(), "cursor", cursor)
    Counter.objects.increment("a")
    assert calls == ["cursor"]


def test_an_event_loop_is_refused_also_when_a_cursor_is_kept() -> None:
    Counter.objects.increment("a")

    async def sync_call() -> None:
        Counter.objects.increment("a")

    with pytest.raises(SynchronousOnlyOperation):
        asyncio.run(sync_call())
    assert_counts({"a": 1})


def test_a_broken_transaction_is_refused() -> None:
    Counter.objects.increment("a")
    with transaction.atomic():
        connection.needs_rollback = True
        with pytest.raises(transaction.TransactionManagementError):
            Counter.objects.increment("a")
    assert_counts({"a": 1})
