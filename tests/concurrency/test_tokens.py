"""Tokens that many use at once: each counts once, whoever comes first."""

from __future__ import annotations

from collections import Counter as Sums
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime, time, timedelta
from functools import partial
from typing import Any
from uuid import UUID

import pytest
from django.db import transaction

from django_counters import clock
from django_counters.exceptions import (
    InsufficientCount,
    RetryTransaction,
    TokenConflict,
)
from django_counters.models import Counter, CounterDelta, CounterToken
from django_counters.stores.sql.dialects.ledger import DELTAS
from django_counters.testing import override_counters
from django_counters.tokens import mint, token_of
from django_counters.upkeep.verify import verify
from tests.concurrency.crowd import PATIENCE, Threads
from tests.concurrency.leading import until
from tests.concurrency.servers import connected, execute, waiting
from tests.settling import roll_up

pytestmark = [pytest.mark.postgres, pytest.mark.django_db(transaction=True)]
CROWD = 32
NAMESPACES: dict[str, dict[str, Any]] = {
    "orders": {"STRATEGY": "ledger"},
    "likes": {"STRATEGY": "sharded"},
    "stock": {"FLOOR": 0},
}
KEYS = ["orders:a", "likes:a", "plain"]
KINDS = ["UUIDv7", "text"]


@pytest.fixture(autouse=True)
def _namespaces() -> Iterator[None]:
    with override_counters(**NAMESPACES):
        yield


def fresh(kind: str) -> UUID | str:
    return mint(clock.utc()) if kind == "UUIDv7" else "a form that was sent twice"


def increment(key: str, by: int, token: UUID | str) -> Any:
    return Counter.objects.increment(key, by, token=token)


def outcome(key: str, by: int, token: UUID | str) -> str:
    """What became of a call."""
    try:
        return "replayed" if increment(key, by, token).replayed else "counted"
    except TokenConflict:
        return "refused"


def tokens_of_entries() -> list[UUID]:
    return list(CounterDelta.objects.values_list("token", flat=True))


class TestSameToken:
    @pytest.mark.parametrize("kind", KINDS)
    @pytest.mark.parametrize("key", KEYS)
    def test_it_counts_once(self, key: str, kind: str) -> None:
        token = fresh(kind)
        outcomes = Sums(Threads(CROWD).run(lambda number: outcome(key, 5, token)))
        assert outcomes == {"counted": 1, "replayed": CROWD - 1}
        assert Counter.objects.value(key) == 5
        roll_up()
        assert Counter.objects.value(key) == 5
        assert outcome(key, 5, token) == "replayed"
        assert verify().drifts == []

    def test_among_many_at_once(self) -> None:
        """Batches that share tokens, in other orders: no entry twice, and no deadlock."""
        moment = clock.utc()
        entries = [("orders:a", 1, token_of(str(n), moment)) for n in range(50)]

        def append(number: int) -> int:
            turned = entries[number:] + entries[:number]
            return CounterDelta.objects.append_many(turned[: 20 + number]).appended

        assert sum(Threads(CROWD).run(append)) == 50
        assert Counter.objects.value("orders:a") == 50

    @pytest.mark.parametrize("kind", KINDS)
    @pytest.mark.parametrize("key", KEYS)
    def test_of_different_changes_exactly_one_is_counted(self, key: str, kind: str) -> None:
        token = fresh(kind)
        outcomes = Threads(CROWD).run(lambda number: outcome(key, number + 1, token))
        assert Sums(outcomes) == {"counted": 1, "refused": CROWD - 1}
        assert Counter.objects.value(key) == outcomes.index("counted") + 1

    @pytest.mark.parametrize("kind", KINDS)
    def test_of_different_counters_exactly_one_is_counted(self, kind: str) -> None:
        token = fresh(kind)
        keys = ["likes:a", "plain", "plain:b", "stock:a"]
        outcomes = Threads(CROWD).run(lambda number: outcome(keys[number % 4], 5, token))
        counted = outcomes.index("counted") % 4
        assert outcomes.count("counted") == 1
        assert outcomes.count("refused") == CROWD * 3 / 4
        found = Counter.objects.values_of(keys)
        assert found == {**dict.fromkeys(keys, 0), keys[counted]: 5}

    @pytest.mark.parametrize("first", ["entry", "count"])
    def test_while_its_counter_comes_into_the_ledger(
        self, first: str, elsewhere: Callable[..., Any]
    ) -> None:
        """Old processes count exactly, new ones append, and each retries what the other does."""
        Counter.objects.bulk_create([Counter(key="plain", value=0, outside=0)])
        token = fresh("UUIDv7")
        calls: dict[str, Callable[..., Any]] = {
            "entry": partial(CounterDelta.objects.append, "plain", 5, token=token),
            "count": partial(Counter.objects.increment, "plain", 5, token=token),
        }
        with connected("first"), ThreadPoolExecutor(1) as pool:
            with transaction.atomic(using="first"):
                calls.pop(first)(using="first")
                ((_, then),) = calls.items()
                second = pool.submit(elsewhere, then)
                until(lambda: waiting() == 1 or second.done(), "a second one")
            assert second.result(PATIENCE).replayed
        assert Counter.objects.value("plain") == 5


class TestMidnight:
    """The time of an entry is that of its token, so a retry meets it, whatever day it is."""

    @pytest.fixture
    def midnight(self) -> datetime:
        return datetime.combine(clock.utc().date(), time(), UTC)

    def test_two_tokens_around_midnight(self, midnight: datetime) -> None:
        before, after = mint(midnight - timedelta(milliseconds=1)), mint(midnight)
        tokens = (before, after) * 4
        Threads(8).run(lambda number: increment("orders:a", 5, tokens[number]))
        assert Counter.objects.value("orders:a") == 10
        rows = execute(f"SELECT token, tableoid::regclass::text FROM {DELTAS}")
        assert dict(rows) == {
            before: f"{DELTAS}_{midnight - timedelta(days=1):%Y%m%d}",
            after: f"{DELTAS}_{midnight:%Y%m%d}",
        }

    def test_a_token_of_yesterday_that_is_retried_today_by_many(self, midnight: datetime) -> None:
        token = mint(midnight - timedelta(seconds=1))
        increment("orders:a", 5, token)
        roll_up()
        outcomes = Threads(CROWD).run(lambda number: outcome("orders:a", 5, token))
        assert Sums(outcomes) == {"replayed": CROWD}
        assert Counter.objects.value("orders:a") == 5
        assert tokens_of_entries() == [token]

    def test_a_text_has_no_day(self) -> None:
        """What is known of it stands in one table for all days."""
        increment("orders:a", 5, "a form")
        yesterday = clock.now() - timedelta(days=1)
        assert CounterToken.objects.update(created_at=yesterday) == 1
        assert outcome("orders:a", 5, "a form") == "replayed"
        assert Counter.objects.value("orders:a") == 5


class TestTransactions:
    @pytest.mark.parametrize("kind", KINDS)
    @pytest.mark.parametrize("key", KEYS)
    def test_what_is_rolled_back_can_be_retried(self, key: str, kind: str) -> None:
        token = fresh(kind)
        with transaction.atomic():
            assert outcome(key, 5, token) == "counted"
            transaction.set_rollback(True)
        assert outcome(key, 5, token) == "counted"
        assert Counter.objects.value(key) == 5

    @pytest.mark.parametrize("kind", KINDS)
    def test_what_is_refused_can_be_retried(self, kind: str) -> None:
        """A token is used together with its change, or not at all."""
        token = fresh(kind)
        with pytest.raises(InsufficientCount):
            increment("stock:a", -5, token)
        Counter.objects.increment("stock:a", 7)
        assert outcome("stock:a", -5, token) == "counted"
        assert Counter.objects.value("stock:a") == 2

    @pytest.mark.parametrize("kind", KINDS)
    @pytest.mark.parametrize("key", KEYS)
    @pytest.mark.parametrize("ends", ["committed", "rolled back"])
    def test_others_wait_for_the_first_one(
        self, key: str, kind: str, ends: str, elsewhere: Callable[..., Any]
    ) -> None:
        token = fresh(kind)
        with connected("first"), ThreadPoolExecutor(1) as pool:
            with transaction.atomic(using="first"):
                Counter.objects.increment(key, 5, token=token, using="first")
                second = pool.submit(elsewhere, lambda: outcome(key, 5, token))
                until(lambda: waiting() == 1, "a second one that waits")
                transaction.set_rollback(ends == "rolled back", using="first")
            expected = "replayed" if ends == "committed" else "counted"
            assert second.result(PATIENCE) == expected
        assert Counter.objects.value(key) == 5


class TestRepeatableRead:
    """A transaction that keeps one snapshot may not see who has used its token: it is told so."""

    @pytest.mark.parametrize("kind", KINDS)
    @pytest.mark.parametrize("key", KEYS)
    def test_a_token_that_was_used_meanwhile(self, key: str, kind: str) -> None:
        token = fresh(kind)
        with connected("late"):
            with pytest.raises(RetryTransaction), repeatable_read("late"):
                assert Counter.objects.value(key, using="late") == 0
                assert outcome(key, 5, token) == "counted"
                Counter.objects.increment(key, 5, token=token, using="late")
            with repeatable_read("late"):
                again: Any = Counter.objects.increment(key, 5, token=token, using="late")
            assert again.replayed
        assert Counter.objects.value(key) == 5

    @pytest.mark.parametrize("kind", KINDS)
    @pytest.mark.parametrize("key", KEYS)
    def test_in_a_crowd_that_retries(self, key: str, kind: str) -> None:
        token = fresh(kind)

        def insist(number: int) -> str:
            while True:
                try:
                    with repeatable_read("default"):
                        Counter.objects.value(key)
                        return outcome(key, 5, token)
                except RetryTransaction:
                    pass

        assert Sums(Threads(8).run(insist)) == {"counted": 1, "replayed": 7}
        assert Counter.objects.value(key) == 5


@contextmanager
def repeatable_read(using: str) -> Iterator[None]:
    with transaction.atomic(using=using):
        execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ", using=using)
        yield
