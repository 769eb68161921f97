"""Cursors that stay open: as safe as new ones."""

from __future__ import annotations

import asyncio
from threading import Thread
from typing import Any

import pytest
from django.core.exceptions import SynchronousOnlyOperation
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from django_counters.contrib import series
from django_counters.errors import CounterUnavailable
from django_counters.models import Counter
from django_counters.testing import assert_counts, override_counters
from django_counters.types import Counted, Result

pytestmark = pytest.mark.django_db(transaction=True)


def wrapper() -> Any:
    """The present connection itself; ``django.db.connection`` is a proxy."""
    from django.db import connections

    return connections["default"]


def test_a_cursor_in_use_is_nobody_elses() -> None:
    """An execute wrapper that counts, too, does not take the rows of the call that it wraps."""
    nested: list[Result] = []

    def count(execute: Any, *rest: Any) -> Any:
        result = execute(*rest)
        if not nested:
            nested.append(Counted(0))
            nested[0] = Counter.objects.increment("queries")
        return result

    Counter.objects.increment_many({"hits": 1, "queries": 1})
    with connection.execute_wrapper(count):
        assert Counter.objects.increment("hits") == 2
    assert_counts({"hits": 2, "queries": 2})


@pytest.mark.postgresql
@pytest.mark.rare
def test_an_idle_connection_is_checked_as_django_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """With CONN_HEALTH_CHECKS a connection that died between requests is replaced."""
    Counter.objects.increment("a")
    monkeypatch.setattr(wrapper(), "health_check_enabled", True)
    monkeypatch.setattr(wrapper(), "health_check_done", False)
    pid = wrapper().connection.info.backend_pid

    def cut() -> None:
        try:
            with connection.cursor() as cursor:
                cursor.execute("SELECT pg_terminate_backend(%s)", [pid])
        finally:
            connection.close()

    thread = Thread(target=cut)
    thread.start()
    thread.join()
    assert Counter.objects.increment("a") == 2


@pytest.mark.many_writers
def test_a_connection_that_is_known_to_be_lost_counts_nothing() -> None:
    Counter.objects.increment("a")
    wrapper().connection.close()
    for _ in range(2):
        with pytest.raises(CounterUnavailable):
            Counter.objects.increment("a")
    # Some drivers refuse to close it again.
    wrapper().connection = None
    assert Counter.objects.increment("a") == 2


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


@pytest.mark.parametrize("way", ["logged", "wrapped"])
def test_a_statement_without_rows_is_run_also_where_it_is_looked_at(way: str) -> None:
    """With ``DEBUG``, in a toolbar or in a trace: such statements add to periods."""
    looked_at: Any = {
        "logged": CaptureQueriesContext(connection),
        "wrapped": connection.execute_wrapper(lambda execute, *rest: execute(*rest)),
    }[way]
    with override_counters(hits={"PER": ["day"]}), looked_at:
        Counter.objects.increment("hits:a", 5)
        Counter.objects.adjust("hits:a", to=2, reason="two were robots", actor="ann")
        assert series.of("hits:a").per("day").last(1).total() == 2


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
