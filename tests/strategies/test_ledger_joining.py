"""The ledger joins what is around it: transactions, collectors, databases, async code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from django_counters.models import Counter, CounterDelta
from django_counters.testing import assert_counts
from django_counters.values import Appended, Collected
from tests.strategies.test_ledger import LEDGER, entries, totals

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _ledger(override_counters: Callable[..., None]) -> None:
    override_counters(**LEDGER)


class TestTransactions:
    def test_a_rolled_back_append_was_never_there(self) -> None:
        with pytest.raises(ZeroDivisionError), transaction.atomic():
            Counter.objects.increment("orders:a")
            Counter.objects.increment_many({"orders:a": 1, "orders:b": 1})
            CounterDelta.objects.append_many([("orders:a", 1)], copy=True)
            assert_counts({"orders:a": 3, "orders:b": 1})
            raise ZeroDivisionError
        assert_counts({"orders:a": 0, "orders:b": 0})
        assert (entries(), totals()) == ([], {})

    def test_a_savepoint_takes_its_entries_with_it(self) -> None:
        with transaction.atomic():
            Counter.objects.increment("orders:a")
            with pytest.raises(ZeroDivisionError), transaction.atomic():
                Counter.objects.increment("orders:a", 10)
                Counter.objects.increment_many({"orders:a": 100, "orders:b": 1})
                raise ZeroDivisionError
            Counter.objects.increment("orders:a")
        assert entries() == [("orders:a", 1)] * 2
        assert_counts({"orders:a": 2, "orders:b": 0})

    def test_a_savepoint_takes_the_mark_of_the_ledger_with_it(self) -> None:
        """A counter that never had an entry is again one of which the ledger knows nothing."""
        Counter.objects.increment("plain", 5)
        with pytest.raises(ZeroDivisionError), transaction.atomic():
            CounterDelta.objects.append("plain", 2)
            CounterDelta.objects.append("new", 2)
            assert totals() == {"plain": (5, 5), "new": (0, 0)}
            raise ZeroDivisionError
        assert totals() == {"plain": (5, None)}
        assert Counter.objects.increment("plain") == 6
        assert totals() == {"plain": (6, None)}

    def test_an_append_after_a_savepoint_was_undone_marks_it_anew(self) -> None:
        with transaction.atomic():
            Counter.objects.increment("plain", 5)
            with pytest.raises(ZeroDivisionError), transaction.atomic():
                CounterDelta.objects.append("plain", 2)
                raise ZeroDivisionError
            Counter.objects.increment("plain", 3)
            CounterDelta.objects.append("plain", 4)
        assert totals() == {"plain": (8, 8)}
        assert_counts({"plain": 12})


@pytest.mark.postgres
@pytest.mark.parametrize("order", [("plain", "orders:a"), ("orders:a", "plain")])
def test_what_others_wait_for_comes_after_what_nobody_waits_for(order: tuple[str, str]) -> None:
    with CaptureQueriesContext(connection) as captured:
        Counter.objects.increment_many(dict.fromkeys(order, 1))
    called = [one["sql"] for one in captured if "django_counters_a" in one["sql"]]
    assert ["append" in sql for sql in called] == [True, False]


class TestCollector:
    def test_a_block_appends_one_entry_for_each_counter(self) -> None:
        with Counter.objects.collect():
            returned: Any = Counter.objects.increment("orders:a")
            Counter.objects.increment_many({"orders:a": 2, "orders:b": 3, "plain": 1})
            assert isinstance(returned, Collected)
            assert entries() == []
            assert_counts({"orders:a": 3, "orders:b": 3, "plain": 1})
            reading = Counter.objects.read("orders:a")
            assert (reading.value, reading.total, reading.pending) == (3, 0, 3)
        assert sorted(entries()) == [("orders:a", 3), ("orders:b", 3)]
        assert_counts({"orders:a": 3, "orders:b": 3, "plain": 1})

    def test_an_error_discards_it(self) -> None:
        with pytest.raises(ZeroDivisionError), Counter.objects.collect():
            Counter.objects.increment("orders:a")
            raise ZeroDivisionError
        assert entries() == []

    def test_an_entry_of_its_own_is_not_collected(self) -> None:
        with Counter.objects.collect():
            Counter.objects.increment("orders:a", 2)
            CounterDelta.objects.append("orders:a", 3)
            assert entries() == [("orders:a", 3)]
            assert_counts({"orders:a": 5})
        assert_counts({"orders:a": 5})

    @pytest.mark.django_db(transaction=True)
    def test_the_same_for_async_code(self) -> None:
        async def calls() -> None:
            async with Counter.objects.acollect():
                await Counter.objects.aincrement("orders:a")
                await Counter.objects.aincrement_many({"orders:a": 2, "plain": 1})
                assert await Counter.objects.avalue("orders:a") == 3

        async_to_sync(calls)()
        assert entries() == [("orders:a", 3)]
        assert_counts({"orders:a": 3, "plain": 1})


@pytest.mark.django_db(databases=["default", "other"])
def test_using_chooses_the_database() -> None:
    Counter.objects.increment("orders:a")
    Counter.objects.increment("orders:a", 5, using="other")
    Counter.objects.db_manager("other").decrement("orders:a", 2)
    Counter.objects.increment_many({"orders:a": 1, "orders:b": 2}, using="other")
    CounterDelta.objects.append("orders:a", 7, using="other")
    CounterDelta.objects.append_many([("orders:a", 3)], using="other")
    CounterDelta.objects.append_many([("orders:a", 4)], copy=True, using="other")
    assert entries() == [("orders:a", 1)]
    assert_counts({"orders:a": 1, "orders:b": 0})
    assert_counts({"orders:a": 18, "orders:b": 2}, using="other")
    assert Counter.objects.read("orders:a", using="other").pending == 18
    reading = Counter.objects.read("orders:a", consistency="rolled_up", using="other")
    assert reading.value == 0


@pytest.mark.django_db(transaction=True)
def test_every_call_has_its_async_twin() -> None:
    async def calls() -> None:
        returned: Any = await Counter.objects.aincrement("orders:a", 5)
        assert isinstance(returned, Appended)
        await Counter.objects.adecrement("orders:a", 2)
        await Counter.objects.aincrement_many({"orders:a": 1, "orders:b": 1})
        await Counter.objects.adecrement_many({"orders:b": 3})
        entry = await CounterDelta.objects.aappend("orders:a", 10)
        assert (entry.key, entry.replayed) == ("orders:a", False)
        many = await CounterDelta.objects.aappend_many([("orders:a", 1), ("orders:b", 1)])
        assert (many.appended, many.replayed) == (2, 0)
        assert await Counter.objects.avalue("orders:a") == 15
        assert await Counter.objects.avalues_of(["orders:a", "orders:b"]) == {
            "orders:a": 15,
            "orders:b": -1,
        }
        assert (await Counter.objects.aread("orders:a")).pending == 15

    async_to_sync(calls)()
    assert_counts({"orders:a": 15, "orders:b": -1})
