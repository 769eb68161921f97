"""Landings: a generation is added to the totals once, whoever else is landing it."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from contextlib import closing, suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection, transaction
from django.db.models import F

from django_counters.errors import CounterUnavailable, OutcomeUnknown
from django_counters.models import Counter, CounterBatch, CounterSource
from django_counters.stores.base import Parcel, PartitionBusy
from django_counters.stores.sql.batches import SqlBatches
from django_counters.stores.sql.tables import NAMED
from django_counters.testing import assert_counts
from tests.stores.test_failures import beside, lost_at_commit, wait_for_lock

pytestmark = pytest.mark.django_db(transaction=True)
BATCHES = SqlBatches("default")


def generations(count: int) -> list[str]:
    """New ones, in the order in which they are claimed."""
    return sorted(uuid.uuid4().hex for _ in range(count))


def batched(*ids: str) -> list[Parcel]:
    return [Parcel(generation, "redis", {"a": 5}, 3) for generation in ids]


def land(generation: str, by: int = 5, key: str = "a") -> set[str]:
    """Land one generation of one counter as a flush does it."""
    with BATCHES.landing():
        claimed = BATCHES.claim(batched(generation))
        if claimed:
            assert BATCHES.land_named({key: by}) == {}
    return claimed


class TestClaim:
    def test_a_generation_is_landed_once(self) -> None:
        first, second = generations(2)
        assert land(first) == {first}
        assert land(first) == set()
        with BATCHES.landing():
            assert BATCHES.claim(batched(second, first)) == {second}
            assert BATCHES.claim([]) == set()
        assert_counts({"a": 5})
        assert BATCHES.known([first, second, generations(1)[0]]) == {first, second}
        row = CounterBatch.objects.get(pk=first)
        assert (row.slot, row.source, row.counters, int(row.total)) == (3, "redis", 1, 5)
        # By the clock of the database.
        assert abs(datetime.now(UTC) - row.applied_at) < timedelta(minutes=1)

    def test_a_sum_may_be_wider_than_a_counter(self) -> None:
        (generation,) = generations(1)
        with BATCHES.landing():
            BATCHES.claim([Parcel(generation, "redis", dict.fromkeys("ab", 2**69))])
        total = CounterBatch.objects.get().total
        # SQLite has no integers that are so wide, and keeps about what they are.
        assert abs(total - 2**70) <= (2**30 if connection.vendor == "sqlite" else 0)

    @pytest.mark.many_writers
    @pytest.mark.parametrize("commits", [True, False])
    def test_a_second_landing_waits_for_the_first(self, commits: bool) -> None:
        (generation,) = generations(1)
        with beside() as call:
            with suppress(ZeroDivisionError), BATCHES.landing():
                assert BATCHES.claim(batched(generation)) == {generation}
                BATCHES.land_named({"a": 5})
                second = call(lambda: land(generation))
                wait_for_lock()
                if not commits:
                    raise ZeroDivisionError
            assert second.result(30) == (set() if commits else {generation})
        assert_counts({"a": 5})

    @pytest.mark.many_writers
    def test_generations_are_claimed_in_their_order(self) -> None:
        """Otherwise two landings of the same generations wait for each other."""
        first, second = generations(2)

        def both() -> set[str]:
            with BATCHES.landing():
                return BATCHES.claim(batched(second, first))

        with beside() as call:
            with BATCHES.landing():
                BATCHES.claim(batched(first))
                other = call(both)
                wait_for_lock()
                assert BATCHES.claim(batched(second)) == {second}
            assert other.result(30) == set()

    def test_a_claim_is_taken_back_with_what_was_landed(self) -> None:
        (generation,) = generations(1)
        with pytest.raises(ZeroDivisionError), BATCHES.landing():
            BATCHES.claim(batched(generation))
            BATCHES.land_named({"a": 5})
            BATCHES.remember("redis", {3: (generation, "t")})
            raise ZeroDivisionError
        assert BATCHES.known([generation]) == set()
        assert BATCHES.source("redis") == {}
        assert_counts({"a": 0})
        assert land(generation) == {generation}

    def test_old_ones_are_forgotten(self) -> None:
        old, kept, new = generations(3)
        for generation, days in ((old, 31), (kept, 29), (new, 0)):
            land(generation)
            row = CounterBatch.objects.filter(pk=generation)
            row.update(applied_at=F("applied_at") - timedelta(days=days))
        assert BATCHES.prune() == 1
        assert BATCHES.known([old, kept, new]) == {kept, new}
        assert BATCHES.prune() == 0

    def test_what_was_seen_in_a_source(self) -> None:
        first, second = generations(2)
        BATCHES.remember("redis", {7: (first, "t"), 2: (first, "t")})
        BATCHES.remember("redis", {7: (second, "u")})
        BATCHES.remember("other", {7: ("", "")})
        BATCHES.remember("other", {})
        assert BATCHES.source("redis") == {2: (first, "t"), 7: (second, "u")}
        assert BATCHES.source("redis")[7].timeline == "u"
        assert BATCHES.source("other") == {7: ("", "")}
        assert CounterSource.objects.count() == 3


@pytest.mark.rare
class TestTransaction:
    def test_it_is_never_part_of_another_one(self) -> None:
        with pytest.raises(RuntimeError, match="durable"), transaction.atomic():
            land(generations(1)[0])
        assert_counts({"a": 0})

    def test_its_parts_are_nothing_without_it(self) -> None:
        with pytest.raises(transaction.TransactionManagementError, match="claim needs"):
            BATCHES.claim([])
        parts: list[Callable[[], Any]] = [
            lambda: BATCHES.land_named({"a": 1}),
            lambda: BATCHES.land_records(NAMED, Counter._meta.pk, {"a": 1}),
        ]
        for part in parts:
            with pytest.raises(transaction.TransactionManagementError, match="part of a landing"):
                part()
        assert_counts({"a": 0})

    @pytest.mark.django_db
    def test_that_of_a_test_case_is_none(self) -> None:
        land(generations(1)[0])
        assert_counts({"a": 5})

    def test_without_autocommit_nobody_would_commit_it(self) -> None:
        connection.set_autocommit(False)
        try:
            with pytest.raises(transaction.TransactionManagementError, match="autocommit"):
                land(generations(1)[0])
        finally:
            connection.rollback()
            connection.set_autocommit(True)

    @pytest.mark.postgresql
    def test_what_holds_within_it_and_what_after_it(self) -> None:
        names = ["synchronous_commit", "transaction_isolation", "lock_timeout", "statement_timeout"]

        def shown() -> list[str]:
            with connection.cursor() as cursor:
                cursor.execute(f"SELECT {', '.join(f'current_setting({n!r})' for n in names)}")
                return list(cursor.fetchone())

        with closing(connection):
            with connection.cursor() as cursor:
                cursor.execute("SET synchronous_commit = off")
                cursor.execute("SET default_transaction_isolation = 'repeatable read'")
            with BATCHES.landing(lock_timeout=123, statement_timeout=4567):
                assert shown() == ["on", "read committed", "123ms", "4567ms"]
            assert shown() == ["off", "repeatable read", "0", "0"]

    @pytest.mark.postgresql
    @pytest.mark.parametrize("patience", [{"lock_timeout": 50}, {"statement_timeout": 50}])
    def test_who_waits_too_long_is_told_to_try_again(self, patience: dict[str, int]) -> None:
        (generation,) = generations(1)
        Counter.objects.increment("a")

        def impatient() -> None:
            with BATCHES.landing(**patience):
                BATCHES.claim(batched(generation))
                BATCHES.land_named({"a": 5, "b": 5})

        with beside() as call, transaction.atomic():
            Counter.objects.increment("a")
            with pytest.raises(PartitionBusy, match="timeout"):
                call(impatient).result(30)
        assert_counts({"a": 2, "b": 0})
        assert BATCHES.known([generation]) == set()

    @pytest.mark.skipif(connection.vendor != "sqlite", reason="it has one writer")
    def test_the_only_writer_is_the_one_who_began(self) -> None:
        first, second = generations(2)
        with beside() as call:
            with BATCHES.landing():
                # So far it has written nothing.
                with pytest.raises(PartitionBusy):
                    call(lambda: land(second)).result(30)
                assert BATCHES.claim(batched(first)) == {first}
            assert call(lambda: land(first)).result(30) == set()
            assert call(lambda: land(second)).result(30) == {second}

    @pytest.mark.postgresql
    def test_a_connection_lost_before_commit(self) -> None:
        with pytest.raises(CounterUnavailable), BATCHES.landing():
            BATCHES.land_named({"a": 5})
            with connection.cursor() as cursor:
                cursor.execute("SELECT pg_terminate_backend(pg_backend_pid())")
        connection.close()
        assert_counts({"a": 0})

    @pytest.mark.postgresql
    def test_a_connection_lost_within_commit(self) -> None:
        (generation,) = generations(1)
        with lost_at_commit(CounterBatch), pytest.raises(OutcomeUnknown):
            land(generation)
        assert land(generation) == {generation}
        assert_counts({"a": 5})
