"""The promises of the collector, one connection at a time."""

from __future__ import annotations

import contextvars
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any
from unittest import mock

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from django_counters.errors import (
    CeilingExceeded,
    CounterOverflow,
    InsufficientCount,
)
from django_counters.models import Counter
from django_counters.testing import assert_counts, override_counters
from django_counters.types import INT8
from django_counters.write.collector import Collector

pytestmark = pytest.mark.django_db
LOWEST, HIGHEST = INT8
FRAME = ("BEGIN", "SAVEPOINT", "RELEASE", "ROLLBACK", "COMMIT")


class Oops(Exception):
    """What a block of the caller fails with."""


def caught() -> AbstractContextManager[object, bool]:
    """Somebody catches what the block fails with, and goes on."""
    return pytest.raises(Oops)


def executed(do: Callable[[], Any]) -> list[str]:
    with CaptureQueriesContext(connection) as captured:
        do()
    return [query["sql"] for query in captured]


def counting(do: Callable[[], Any]) -> list[str]:
    """What is executed, without what opens and ends transactions."""
    return [sql for sql in executed(do) if not sql.upper().startswith(FRAME)]


def count(*keys: str) -> None:
    for key in keys:
        Counter.objects.increment(key)


def many_counts() -> None:
    with Counter.objects.collect():
        count("b", "a", "b")
        Counter.objects.increment_many({"c": 2, "a": 3})
        Counter.objects.decrement("b", 5)


def test_a_block_whose_end_was_interrupted_collects_no_more() -> None:
    interrupted = mock.patch.object(Collector, "close", side_effect=Oops)
    with interrupted, caught(), Counter.objects.collect():
        count("a")
    many_counts()
    assert_counts({"a": 4, "b": -3})


def test_a_broken_transaction_is_refused() -> None:
    with transaction.atomic():
        transaction.set_rollback(True)
        with pytest.raises(transaction.TransactionManagementError), Counter.objects.collect():
            count("a")


class TestMerging:
    @pytest.mark.django_db(transaction=True)
    def test_all_is_one_statement_and_the_last_thing_of_the_transaction(self) -> None:
        def work() -> None:
            with Counter.objects.collect():
                count("b", "a")
                Counter.objects.filter(key="elsewhere").exists()
                count("a")

        first, read, counted, last = executed(work)
        assert (first, last) == ("BEGIN", "COMMIT")
        assert read.startswith("SELECT")
        assert Counter._meta.db_table in counted or "django_counters_add" in counted
        assert_counts({"a": 2, "b": 1})

    def test_blocks_within_join_the_outer_one(self) -> None:
        def work() -> None:
            with Counter.objects.collect():
                count("a")
                with Counter.objects.collect(), transaction.atomic():
                    many_counts()
                count("a")

        assert len(counting(work)) == 1
        assert_counts({"a": 6, "b": -3, "c": 2})

    def test_what_comes_to_nothing_makes_no_statement(self) -> None:
        def work() -> None:
            with Counter.objects.collect():
                Counter.objects.increment("a", 3)
                Counter.objects.decrement("a", 3)

        assert counting(work) == []
        with Counter.objects.collect():
            pass
        assert not Counter.objects.filter(key="a").exists()

    def test_statements_come_in_one_order_whatever_the_block_names_first(self) -> None:
        """Transactions that lock in different orders could wait for each other for ever."""

        def work(order: tuple[str, ...]) -> None:
            with Counter.objects.collect():
                count(*order)

        with override_counters(
            x={"STRATEGY": "sharded", "OPTIONS": {"shards": 1}},
            y={"STRATEGY": "sharded", "OPTIONS": {"shards": 2}},
        ):
            count("x:1", "y:1")
            one = counting(lambda: work(("x:1", "y:1")))
            assert counting(lambda: work(("y:1", "x:1"))) == one

    def test_querysets_of_counters_are_collected(self) -> None:
        Counter.objects.increment_many({"a": 1, "b": 1})
        with Counter.objects.collect():
            assert Counter.objects.filter(key__in="ab").increment(5) == 2
            assert Counter.objects.get(key="a").value == 1
            assert_counts({"a": 6, "b": 6})
        assert Counter.objects.get(key="a").value == 6

    @pytest.mark.django_db(databases=["default", "other"])
    def test_another_database_is_not_collected(self) -> None:
        with Counter.objects.collect(using="other"):
            assert Counter.objects.increment("a") == 1
            with Counter.objects.collect():
                count("a")
                Counter.objects.increment("a", 7, using="other")
            assert not Counter.objects.using("other").filter(key="a").exists()
        assert_counts({"a": 2})
        assert_counts({"a": 7}, using="other")

    @pytest.mark.parametrize("strategy", ["exact", "sharded"])
    @pytest.mark.parametrize("edge", [HIGHEST, LOWEST])
    @pytest.mark.parametrize("keys", [("n:a",), ("n:a", "n:b")])
    def test_a_sum_that_does_not_fit(self, strategy: str, edge: int, keys: tuple[str, ...]) -> None:
        def work() -> None:
            with transaction.atomic(), Counter.objects.collect():
                for key in keys:
                    Counter.objects.increment(key, edge)
                Counter.objects.increment("n:a", edge)

        with override_counters(n={"STRATEGY": strategy}):
            with pytest.raises(CounterOverflow):
                work()
            assert_counts({"n:a": 0, "n:b": 0})
            count("n:a")
            assert_counts({"n:a": 1})


class TestUndoing:
    def test_a_block_within_that_fails_takes_only_its_own(self) -> None:
        with Counter.objects.collect():
            count("a")
            with caught(), Counter.objects.collect():
                count("a", "b")
                raise Oops
            assert_counts({"a": 1, "b": 0})
            count("c")
        assert_counts({"a": 1, "b": 0, "c": 1})

    @pytest.mark.parametrize("failing", [1, 2, 3])
    def test_at_depth_three(self, failing: int) -> None:
        """The savepoint at depth ``failing`` takes what is within it, whatever was released."""

        def go_down(depth: int) -> None:
            count(f"before:{depth}", "all")
            if depth < 3:
                descend(depth + 1)
            count(f"after:{depth}", "all")
            if depth == failing:
                raise Oops

        def descend(depth: int) -> None:
            if depth == failing:
                with caught(), transaction.atomic():
                    go_down(depth)
            else:
                with transaction.atomic():
                    go_down(depth)

        with Counter.objects.collect():
            descend(1)
            count("all")
        kept = failing - 1
        assert_counts({"all": 2 * kept + 1})
        for depth in (1, 2, 3):
            stays = int(depth <= kept)
            assert_counts({f"before:{depth}": stays, f"after:{depth}": stays})

    @pytest.mark.parametrize("later", [False, True])
    def test_a_savepoint_by_hand_takes_its_own(self, later: bool) -> None:
        with Counter.objects.collect():
            count("a")
            mark = str(connection.savepoint())
            count("a", "b")
            transaction.savepoint_rollback(mark)
            assert_counts({"a": 1, "b": 0})
            if later:
                transaction.savepoint_commit(str(connection.savepoint()))
            count("c")
        assert_counts({"a": 1, "b": 0, "c": 1})

    def test_a_savepoint_by_hand_that_is_released_keeps_its_own(self) -> None:
        with Counter.objects.collect():
            mark = str(connection.savepoint())
            count("a")
            inner = str(connection.savepoint())
            count("a")
            transaction.savepoint_rollback(inner)
            transaction.savepoint_commit(mark)
        assert_counts({"a": 1})

    def test_a_block_without_a_savepoint_takes_the_one_around_it(self) -> None:
        with Counter.objects.collect():
            count("a")
            with transaction.atomic():
                count("a")
                with caught(), transaction.atomic(savepoint=False):
                    count("a")
                    raise Oops
            count("b")
        assert_counts({"a": 1, "b": 1})

    @pytest.mark.django_db(transaction=True)
    def test_a_transaction_that_is_to_be_rolled_back(self) -> None:
        with Counter.objects.collect():
            count("a")
            with caught(), transaction.atomic(savepoint=False):
                raise Oops
        with Counter.objects.collect():
            count("b")
            transaction.set_rollback(True)
        with transaction.atomic():
            with Counter.objects.collect():
                count("c")
            transaction.set_rollback(True)
        assert_counts({"a": 0, "b": 0, "c": 0})
        assert Counter.objects.increment("a") == 1

    @pytest.mark.skipif(
        connection.vendor == "sqlite", reason="its driver has no savepoints without autocommit"
    )
    @pytest.mark.django_db(transaction=True)
    def test_without_autocommit(self) -> None:
        transaction.set_autocommit(False)
        try:
            with Counter.objects.collect():
                count("a")
                with caught(), transaction.atomic():
                    count("a")
                    raise Oops
            transaction.commit()
            with Counter.objects.collect():
                count("a")
            transaction.rollback()
        finally:
            transaction.set_autocommit(True)
        assert_counts({"a": 1})


class TestBounds:
    def test_a_bounded_change_is_made_at_once_after_what_is_owed(self) -> None:
        with Counter.objects.collect():
            Counter.objects.increment("a", 5)
            assert Counter.objects.decrement("a", 2, floor=0) == 3
            assert Counter.objects.get(key="a").value == 3
            Counter.objects.increment("a", 4)
            assert Counter.objects.increment("a", 3, ceiling=10) == 10
            with pytest.raises(CeilingExceeded):
                Counter.objects.increment("a", ceiling=10)
        assert_counts({"a": 10})

    def test_bounds_of_a_namespace(self) -> None:
        with override_counters(n={"FLOOR": 0}), Counter.objects.collect():
            Counter.objects.increment("n:a", 5)
            assert not Counter.objects.filter(key="n:a").exists()
            assert Counter.objects.decrement("n:a", 5) == 0
            with pytest.raises(InsufficientCount) as refused:
                Counter.objects.decrement_many({"n:a": 1, "free": 1})
            assert refused.value.available == 0
        assert_counts({"n:a": 0, "free": 0})

    def test_a_savepoint_gives_back_what_a_bounded_change_took(self) -> None:
        with Counter.objects.collect():
            Counter.objects.increment("a", 5)
            with caught(), transaction.atomic():
                Counter.objects.increment("a", 1)
                assert Counter.objects.decrement("a", 2, floor=0) == 4
                raise Oops
            assert_counts({"a": 5})
            assert Counter.objects.decrement("a", 5, floor=0) == 0
        assert_counts({"a": 0})


class TestContexts:
    def test_a_context_that_outlives_the_block_counts_at_once(self) -> None:
        """What is collected by nobody would be lost without a word."""
        with Counter.objects.collect():
            count("a")
            context = contextvars.copy_context()
        assert context.run(Counter.objects.increment, "a") == 2
        assert_counts({"a": 2})

    def test_a_generator_that_is_resumed_elsewhere(self) -> None:
        def work() -> Iterator[None]:
            with Counter.objects.collect():
                count("a")
                yield
                count("a")

        steps = work()
        contextvars.copy_context().run(next, steps)
        assert contextvars.copy_context().run(next, steps, None) is None
        assert_counts({"a": 2})
