"""Tokens that many use at once: each counts once, whoever comes first."""

from __future__ import annotations

from collections import Counter as Sums
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, time, timedelta
from typing import Any
from uuid import UUID

import pytest
from django.db import connection, transaction

from django_counters import clock
from django_counters.errors import (
    TokenConflict,
)
from django_counters.landing import Landed, ParcelLanding
from django_counters.models import Counter, CounterDelta
from django_counters.stores.base import Parcel, Tokened
from django_counters.testing import override_counters
from django_counters.tokens import mint, token_of
from django_counters.types import Appended
from django_counters.upkeep import verify
from tests.concurrency.crowd import PATIENCE, Threads
from tests.concurrency.servers import connected, waiting
from tests.concurrency.waiting import until
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
each_case = pytest.mark.parametrize(
    ("key", "kind"),
    [
        pytest.param(*case, marks=pytest.mark.needs("ledger") if "orders" in case[0] else ())
        for case in CASES
    ],
)


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


def land_tokens(tokens: Sequence[UUID | str], using: str) -> Landed:
    """Land increments of ``plain`` by 5 in the transaction that is open."""
    tokened = {str(token): Tokened("plain", 5) for token in tokens}
    sums = {"plain": 5 * len(tokens)}
    parcel = Parcel(mint(clock.utc()).hex, "elsewhere", sums, tokens=tokened)
    with transaction.atomic(using=using):
        return ParcelLanding(using, "elsewhere").land([parcel])


def append(token: UUID | str, using: str) -> bool:
    result = CounterDelta.objects.append("plain", 5, token=token, using=using)
    assert type(result) is Appended
    return not result.replayed


# Ways to add 5 to ``plain`` with a token, in a transaction that may be open: whether it counted.
WAYS: dict[str, Callable[[UUID | str, str], bool]] = {
    "entry": append,
    "entries": lambda token, using: (
        CounterDelta.objects.append_many([("plain", 5, token)], using=using).appended == 1
    ),
    "landing": lambda token, using: not land_tokens([token], using).forget,
    "count": lambda token, using: (
        not Counter.objects.increment("plain", 5, token=token, using=using).replayed
    ),
}


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

    @pytest.mark.parametrize("first", ["entry", "entries", "landing", "count"])
    @pytest.mark.parametrize("then", ["entry", "entries", "landing", "count"])
    @pytest.mark.parametrize("ends", ["committed", "rolled back"])
    def test_while_its_counter_comes_into_the_ledger(
        self, first: str, then: str, ends: str, elsewhere: Callable[..., Any]
    ) -> None:
        """Old processes count exactly, new ones append, and each retries what the other does."""
        Counter.objects.bulk_create([Counter(key="plain", value=0, outside=0)])
        token = fresh("UUIDv7")
        with connected("first"), ThreadPoolExecutor(1) as pool:
            with transaction.atomic(using="first"):
                assert WAYS[first](token, "first")
                second = pool.submit(elsewhere, lambda: WAYS[then](token, "default"))
                until(lambda: waiting() == 1 or second.done(), "a second one")
                transaction.set_rollback(ends == "rolled back", using="first")
            assert second.result(PATIENCE) == (ends == "rolled back")
        assert Counter.objects.value("plain") == 5

    @pytest.mark.postgresql
    @pytest.mark.parametrize("way", ["entry", "entries", "landing", "count"])
    def test_locks_do_not_grow_with_tokens(self, way: str) -> None:
        """The server has shared memory for some thousand locks of all transactions."""
        Counter.objects.bulk_create([Counter(key="plain", value=0, outside=0)])

        def locks(tokens: int) -> int:
            with transaction.atomic(), connection.cursor() as cursor:
                if way == "landing":
                    land_tokens([fresh("UUIDv7") for _ in range(tokens)], "default")
                elif way == "entries":
                    CounterDelta.objects.append_many(
                        [("plain", 5, fresh("UUIDv7")) for _ in range(tokens)]
                    )
                else:
                    for _ in range(tokens):
                        assert WAYS[way](fresh("UUIDv7"), "default")
                cursor.execute("SELECT COUNT(*) FROM pg_locks WHERE pid = pg_backend_pid()")
                ((found,),) = cursor.fetchall()
            return int(found)

        locks(30)  # plans of functions are made, which locks what they read
        # A look into the catalogue may take another one now and then.
        assert abs(locks(90) - locks(30)) < 10


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
