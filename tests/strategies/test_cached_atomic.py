"""Cached counters within transactions: sent when they commit, never if they are rolled back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.db import transaction
from django.test import TestCase

from django_counters import Sent
from django_counters.exceptions import (
    CounterError,
    CounterUnavailable,
    UnsupportedOption,
    ValueNotKnown,
)
from django_counters.models import Counter, CounterIncident
from django_counters.testing import override_counters
from django_counters.upkeep.flush import flush

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("cached")]
DEAD = {"STRATEGY": "cached", "CACHE": "redis://127.0.0.1:1/0"}


class Undone(Exception):
    """Takes back a transaction or a savepoint."""


def value() -> int:
    return Counter.objects.value("views:a")


def test_it_is_counted_when_the_transaction_commits(elsewhere: Callable[..., Any]) -> None:
    with transaction.atomic():
        Counter.objects.increment("views:a", 2)
        assert value() == 0
        assert elsewhere(value) == 0
    assert value() == 2


def test_what_is_rolled_back_is_never_counted() -> None:
    with pytest.raises(Undone), transaction.atomic():
        Counter.objects.increment("views:a")
        Counter.objects.increment_many({"views:a": 1, "views:b": 1})
        with transaction.atomic():
            Counter.objects.increment("views:a")
        raise Undone
    flush()
    assert Counter.objects.values_of(["views:a", "views:b"]) == {"views:a": 0, "views:b": 0}


def test_a_savepoint_takes_its_own_with_it() -> None:
    with transaction.atomic():
        Counter.objects.increment("views:a")
        with pytest.raises(Undone), transaction.atomic():
            Counter.objects.increment("views:a", 10)
            with transaction.atomic():
                Counter.objects.increment("views:a", 100)
            raise Undone
        with transaction.atomic():
            Counter.objects.increment("views:a", 1000)
            with pytest.raises(Undone), transaction.atomic():
                Counter.objects.increment("views:a", 10_000)
                raise Undone
            Counter.objects.increment("views:a", 100_000)
        Counter.objects.increment("views:a", 1_000_000)
    assert value() == 1_101_001


def test_an_inner_block_without_a_savepoint_takes_all_with_it() -> None:
    with transaction.atomic():
        Counter.objects.increment("views:a")
        try:
            with transaction.atomic(savepoint=False):
                Counter.objects.increment("views:a")
                raise Undone
        except Undone:
            pass
    assert value() == 0


def test_set_rollback() -> None:
    with transaction.atomic():
        Counter.objects.increment("views:a")
        transaction.set_rollback(True)
    assert value() == 0


@pytest.mark.xfail(reason="Django keeps the hooks of savepoints that it does not know")
def test_a_savepoint_made_by_hand_takes_its_own_with_it() -> None:
    with transaction.atomic():
        Counter.objects.increment("views:a")
        savepoint = transaction.savepoint()
        Counter.objects.increment("views:a", 10)
        transaction.savepoint_rollback(savepoint)
    assert value() == 1


def test_the_new_value_is_not_known_before_the_commit() -> None:
    with transaction.atomic():
        sent: Any = Counter.objects.increment("views:a")
        many: Any = Counter.objects.increment_many({"views:a": 1, "views:b": 1})
    for told in (sent, many["views:a"], many["views:b"]):
        assert type(told) is Sent
        assert told.replayed is False
        with pytest.raises(ValueNotKnown) as caught:
            int(told)
        assert "when the transaction commits" in str(caught.value)
    assert (sent.key, many["views:b"].key) == ("views:a", "views:b")


@pytest.mark.parametrize("undo", [False, True])
def test_immediately_is_at_once_and_stays(undo: bool, elsewhere: Callable[..., Any]) -> None:
    with transaction.atomic():
        Counter.objects.increment("views:a", 100)
        assert Counter.objects.increment("views:a", immediately=True) == 1
        assert Counter.objects.decrement("views:a", 5, immediately=True) == -4
        assert elsewhere(value) == -4
        transaction.set_rollback(undo)
    assert value() == (-4 if undo else 96)


@pytest.mark.parametrize("strategy", ["exact", "sharded", "ledger"])
def test_immediately_is_for_cached_counters(strategy: str) -> None:
    with override_counters(plain={"STRATEGY": strategy}):
        with pytest.raises(UnsupportedOption) as caught:
            Counter.objects.increment("plain:a", immediately=True)
        assert (caught.value.option, caught.value.strategy) == ("immediately", strategy)
        assert Counter.objects.value("plain:a") == 0


def test_outside_of_a_transaction_immediately_means_nothing() -> None:
    assert Counter.objects.increment("views:a", immediately=True) == 1


@pytest.mark.parametrize("policy", ["raise", "ledger", "exact"])
def test_other_hooks_run_whatever_becomes_of_it(policy: str) -> None:
    ran: list[str] = []
    with override_counters(views={**DEAD, "ON_REDIS_DOWN": policy}), transaction.atomic():
        transaction.on_commit(lambda: ran.append("before"))
        Counter.objects.increment("views:a")
        transaction.on_commit(lambda: ran.append("after"))
    assert ran == ["before", "after"]
    assert value() == (0 if policy == "raise" else 1)


def test_what_was_committed_and_lost_is_an_incident_each_time() -> None:
    with override_counters(views={**DEAD, "ON_REDIS_DOWN": "raise"}):
        for _ in range(3):
            with transaction.atomic():
                Counter.objects.increment_many({"views:a": 1, "views:b": 2})
    incidents = CounterIncident.objects.filter(kind=CounterIncident.Kind.LOST)
    assert [i.detail["amounts"] for i in incidents] == [{"views:a": 1, "views:b": 2}] * 3


def test_an_error_of_redis_in_a_transaction_leaves_the_transaction_alone() -> None:
    with override_counters(views={**DEAD, "ON_REDIS_DOWN": "raise"}), transaction.atomic():
        Counter.objects.increment("plain")
        with pytest.raises(CounterUnavailable):
            Counter.objects.increment("views:a", immediately=True)
        with pytest.raises(CounterUnavailable):
            Counter.objects.value("views:a")
        Counter.objects.increment("plain")
    assert Counter.objects.value("plain") == 2


@pytest.mark.django_db(transaction=True, databases=["default", "other"])
def test_a_transaction_of_another_database_is_not_waited_for() -> None:
    with pytest.raises(Undone), transaction.atomic(using="other"):
        assert Counter.objects.increment("views:a") == 1
        Counter.objects.increment("views:a", 10, using="other")
        raise Undone
    assert (value(), Counter.objects.value("views:a", using="other")) == (1, 0)


def test_a_connection_that_never_commits_by_itself() -> None:
    transaction.set_autocommit(False)
    try:
        with pytest.raises((CounterError, transaction.TransactionManagementError)):
            Counter.objects.increment("views:a")
        assert Counter.objects.increment("views:a", immediately=True) == 1
        transaction.commit()
    finally:
        transaction.rollback()
        transaction.set_autocommit(True)
    assert value() == 1


class TestCollect:
    def test_a_block_is_counted_when_it_ends(self) -> None:
        with Counter.objects.collect():
            for _ in range(3):
                Counter.objects.increment("views:a")
                Counter.objects.increment("plain")
            assert Counter.objects.values_of(["views:a", "plain"]) == {"views:a": 3, "plain": 3}
            assert Counter.objects.read("views:a").pending == 3
        assert Counter.objects.values_of(["views:a", "plain"]) == {"views:a": 3, "plain": 3}

    def test_a_block_that_fails_counts_nothing(self) -> None:
        with pytest.raises(Undone), Counter.objects.collect():
            Counter.objects.increment("views:a")
            raise Undone
        assert value() == 0

    def test_a_block_in_a_transaction_is_part_of_it(self) -> None:
        with transaction.atomic():
            with Counter.objects.collect():
                Counter.objects.increment("views:a", 5)
            assert value() == 0
        assert value() == 5
        with pytest.raises(Undone), transaction.atomic():
            with Counter.objects.collect():
                Counter.objects.increment("views:a", 5)
            raise Undone
        assert value() == 5

    def test_savepoints_in_a_block(self) -> None:
        with Counter.objects.collect():
            Counter.objects.increment("views:a")
            with pytest.raises(Undone), transaction.atomic():
                Counter.objects.increment("views:a", 10)
                raise Undone
        assert value() == 1

    def test_immediately_is_not_collected(self) -> None:
        with pytest.raises(Undone), Counter.objects.collect():
            Counter.objects.increment("views:a", 10)
            assert Counter.objects.increment("views:a", immediately=True) == 1
            raise Undone
        assert value() == 1


@pytest.mark.django_db
class TestInATestCase(TestCase):
    def test_hooks_can_be_captured(self) -> None:
        with self.captureOnCommitCallbacks(execute=True) as hooks, transaction.atomic():
            Counter.objects.increment("views:a", 3)
            Counter.objects.increment("views:a", 4)
        self.assertEqual(len(hooks), 1)
        self.assertEqual(value(), 7)
