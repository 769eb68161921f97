"""Tokens that many use at once: each counts once, whoever comes first."""

from __future__ import annotations

from collections import Counter as Sums
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, time, timedelta
from functools import partial
from typing import Any
from uuid import UUID

import pytest
from django.db import transaction

from django_counters import clock
from django_counters.exceptions import (
    TokenConflict,
)
from django_counters.models import Counter, CounterDelta
from django_counters.testing import override_counters
from django_counters.tokens import mint, token_of
from django_counters.upkeep.verify import verify
from django_counters.values import Appended
from tests.concurrency.crowd import PATIENCE, Threads
from tests.concurrency.leading import until
from tests.concurrency.servers import connected, waiting
from tests.settling import roll_up

pytestmark = [pytest.mark.many_writers, pytest.mark.django_db(transaction=True)]
CROWD = 32
NAMESPACES: dict[str, dict[str, Any]] = {
    "orders": {"STRATEGY": "ledger"},
    "likes": {"STRATEGY": "sharded"},
    "stock": {"FLOOR": 0},
}
# An entry of the ledger is its own record of a UUIDv7; all else has a table of tokens.
CASES = [("orders:a", "UUIDv7"), ("orders:a", "text"), ("likes:a", "UUIDv7"), ("plain", "text")]
each_case = pytest.mark.parametrize(("key", "kind"), CASES)


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
    @each_case
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

    @each_case
    def test_of_different_changes_exactly_one_is_counted(self, key: str, kind: str) -> None:
        token = fresh(kind)
        outcomes = Threads(CROWD).run(lambda number: outcome(key, number + 1, token))
        assert Sums(outcomes) == {"counted": 1, "refused": CROWD - 1}
        assert Counter.objects.value(key) == outcomes.index("counted") + 1

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
            told = second.result(PATIENCE)
        assert (told.replayed, type(told)) == (True, Appended)
        assert Counter.objects.value("plain") == 5


class TestMidnight:
    """The time of an entry is that of its token, so a retry meets it, whatever day it is."""

    def test_a_token_of_yesterday_that_is_retried_today_by_many(self) -> None:
        midnight = datetime.combine(clock.utc().date(), time(), UTC)
        token = mint(midnight - timedelta(seconds=1))
        increment("orders:a", 5, token)
        roll_up()
        outcomes = Threads(CROWD).run(lambda number: outcome("orders:a", 5, token))
        assert Sums(outcomes) == {"replayed": CROWD}
        assert Counter.objects.value("orders:a") == 5
        assert tokens_of_entries() == [token]


class TestTransactions:
    @each_case
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
