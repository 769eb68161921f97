"""Cached counters within transactions: sent when they commit; and how large they may be."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.db import transaction
from django.test import TestCase
from django.utils import timezone

from django_counters import Unknown, token_of
from django_counters.cached.flush import flush
from django_counters.errors import (
    CounterError,
    CounterOverflow,
    CounterUnavailable,
    UnsupportedOption,
)
from django_counters.models import Counter, CounterIncident
from django_counters.testing import override_counters
from django_counters.types import INT8

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


def test_the_new_value_is_not_known_before_the_commit() -> None:
    with transaction.atomic():
        sent: Any = Counter.objects.increment("views:a")
        many: Any = Counter.objects.increment_many({"views:a": 1, "views:b": 1})
    for told in (sent, many["views:a"], many["views:b"]):
        assert (told.value, told.replayed, told.reason) == (None, False, Unknown.COMMIT)
    assert (sent.key, many["views:b"].key) == ("views:a", "views:b")


@pytest.mark.parametrize("undo", [False, True])
def test_immediately_is_at_once_and_stays(undo: bool, elsewhere: Callable[..., Any]) -> None:
    # Outside of a transaction it means nothing.
    assert Counter.objects.increment("views:b", immediately=True) == 1
    with transaction.atomic():
        Counter.objects.increment("views:a", 100)
        assert Counter.objects.increment("views:a", immediately=True) == 1
        assert Counter.objects.decrement("views:a", 5, immediately=True) == -4
        assert elsewhere(value) == -4
        transaction.set_rollback(undo)
    assert value() == (-4 if undo else 96)


def test_immediately_is_for_cached_counters() -> None:
    for strategy in ("exact", "sharded", "ledger"):
        with override_counters(plain={"STRATEGY": strategy}):
            with pytest.raises(UnsupportedOption) as caught:
                Counter.objects.increment("plain:a", immediately=True)
            assert (caught.value.option, caught.value.strategy) == ("immediately", strategy)
            assert Counter.objects.value("plain:a") == 0


@pytest.mark.parametrize(
    "policy", ["raise", pytest.param("ledger", marks=pytest.mark.needs("ledger")), "exact"]
)
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
    def test_savepoints_in_a_block(self) -> None:
        with Counter.objects.collect():
            Counter.objects.increment("views:a")
            with pytest.raises(Undone), transaction.atomic():
                Counter.objects.increment("views:a", 10)
                raise Undone
        with pytest.raises(Undone), Counter.objects.collect():
            Counter.objects.increment("views:a")
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
    def test_what_it_counts_is_known_as_outside_of_a_transaction(self) -> None:
        self.assertEqual(Counter.objects.increment("views:a"), 1)
        self.assertEqual(async_to_sync(Counter.objects.aincrement)("views:a"), 2)
        # Nothing tells Redis of it: no hook of a test case runs.
        Counter.objects.adjust("views:a", to=10, reason="a test of totals", actor="tester")
        once: Any = token_of("one", timezone.now())
        counted: list[Any] = [Counter.objects.increment("views:a", token=once) for _ in range(2)]
        self.assertEqual([(int(n), n.replayed) for n in counted], [(11, False), (11, True)])

    def test_a_transaction_in_it_is_one(self) -> None:
        with pytest.raises(Undone), transaction.atomic():
            with transaction.atomic():
                sent = Counter.objects.increment("views:a")
            assert sent.value is None
            raise Undone
        with Counter.objects.collect():
            Counter.objects.increment("views:a")
        self.assertEqual(value(), 0)

    def test_hooks_can_be_captured(self) -> None:
        with self.captureOnCommitCallbacks(execute=True) as hooks, transaction.atomic():
            Counter.objects.increment("views:a", 3)
            Counter.objects.increment("views:a", 4)
        self.assertEqual(len(hooks), 1)
        self.assertEqual(value(), 7)


@pytest.mark.parametrize("by", [2**53 + 1, -(2**53) - 3, 2**61 + 12345, -(2**62) + 1])
def test_large_numbers_are_not_rounded(by: int) -> None:
    assert Counter.objects.increment("views:a", by) == by
    assert Counter.objects.increment("views:a", 1) == by + 1
    assert Counter.objects.value("views:a") == by + 1
    flush()
    assert Counter.objects.get(key="views:a").value == by + 1
    # Now the total is the large one.
    assert Counter.objects.increment("views:a", 1) == by + 2
    assert Counter.objects.values_of(["views:a"], consistency="cached") == {"views:a": by + 2}
    flush()
    assert Counter.objects.values_of(["views:a"], consistency="cached") == {"views:a": by + 2}
    assert Counter.objects.value("views:a") == by + 2


@pytest.mark.parametrize("by", [2**62, -(2**62)])
def test_what_waits_ends_at_62_bits(by: int) -> None:
    """Half the range of a total, so that nobody who compares it can be wrong."""
    sign = 1 if by > 0 else -1
    assert Counter.objects.increment("views:a", by) == by
    for _ in range(2):
        with pytest.raises(CounterOverflow) as caught:
            Counter.objects.increment("views:a", by)
        assert "views:a" in str(caught.value)
    with pytest.raises(CounterOverflow):
        Counter.objects.increment("views:b", INT8[0] if by < 0 else INT8[1])
    with pytest.raises(CounterOverflow):
        Counter.objects.increment_many({"views:c": 1, "views:a": by, "views:d": 1})
    values = Counter.objects.values_of(["views:a", "views:b", "views:c", "views:d"])
    assert list(values.values()) == [by, 0, 0, 0]
    assert Counter.objects.increment("views:a", -sign) == by - sign


def test_a_shard_key_means_nothing() -> None:
    assert Counter.objects.increment("views:a", shard_key="user 1") == 1
    assert Counter.objects.increment("views:a", shard_key=2) == 2
