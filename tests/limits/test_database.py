"""Buckets in the database: what holds while others hold them, what fails, and what is forgotten."""

from __future__ import annotations

import secrets

import pytest
from django.db import connection, transaction

from django_counters.contrib.limits.algorithms import Draw, LimitState
from django_counters.contrib.limits.limit import prune_limits
from django_counters.contrib.limits.models import CounterLimit
from django_counters.contrib.limits.sql import SqlLimits
from django_counters.errors import CounterUnavailable
from django_counters.models import Counter
from tests.stores.test_failures import beside, closed_database, wait_for_lock

DAY = 86_400_000_000


def take(digest: bytes, cost: int = DAY, using: str = "default") -> LimitState:
    return SqlLimits(using).take(Draw(digest, cost, 10 * DAY))


@pytest.fixture
def digest() -> bytes:
    return secrets.token_bytes(32)


@pytest.mark.django_db(transaction=True, databases=["default", "other"])
def test_a_closed_database(digest: bytes) -> None:
    with closed_database() as alias, pytest.raises(CounterUnavailable) as caught:
        take(digest, using=alias)
    assert caught.value.using == "other"


@pytest.mark.rare
@pytest.mark.postgresql
@pytest.mark.django_db(transaction=True)
class TestHeld:
    """Somebody has taken in a transaction that goes on."""

    def test_the_clock_is_asked_when_the_row_is_had(self, digest: bytes) -> None:
        """Whoever waits would else take from the bucket as it was before."""
        full = 120_000
        store = SqlLimits("default")
        with beside() as call:
            with transaction.atomic():
                assert store.take(Draw(digest, full, full)).admitted
                future = call(lambda: store.take(Draw(digest, full, full)))
                wait_for_lock()
                # The server sleeps, so that it is its own clock that goes on.
                with connection.cursor() as cursor:
                    cursor.execute("SELECT pg_sleep(0.2)")
            assert future.result(30).admitted

    def test_a_connection_that_is_lost(self, digest: bytes) -> None:
        take(digest)
        with beside() as call, transaction.atomic():
            take(digest)
            future = call(lambda: take(digest))
            with connection.cursor() as cursor:
                cursor.execute("SELECT pg_terminate_backend(%s)", [wait_for_lock()])
            error = future.exception(30)
        assert type(error) is CounterUnavailable
        assert round(take(digest).used / DAY) == 3

    def test_whoever_waits_too_long_goes_on_with_its_transaction(self, digest: bytes) -> None:
        def impatient() -> None:
            with transaction.atomic():
                with connection.cursor() as cursor:
                    cursor.execute("SET LOCAL lock_timeout = '50ms'")
                with pytest.raises(CounterUnavailable, match="lock timeout"):
                    take(digest)
                Counter.objects.increment("a")

        with beside() as call, transaction.atomic():
            take(digest)
            call(impatient).result(60)
        assert Counter.objects.value("a") == 1

    def test_where_nothing_may_be_written(self, digest: bytes) -> None:
        with transaction.atomic():
            with connection.cursor() as cursor:
                cursor.execute("SET TRANSACTION READ ONLY")
            with pytest.raises(CounterUnavailable, match="read-only"):
                take(digest)

    def test_one_that_somebody_holds_is_not_forgotten(self, digest: bytes) -> None:
        take(digest)
        CounterLimit.objects.update(arrival=1)
        with beside() as call, transaction.atomic():
            CounterLimit.objects.select_for_update().get()
            assert call(prune_limits).result(30) == 0
        assert prune_limits() == 1


@pytest.mark.django_db
class TestPrune:
    def test_only_what_is_full_again(self, digest: bytes) -> None:
        take(digest)
        CounterLimit.objects.create(digest=b"full", arrival=1)
        assert prune_limits() == 1
        assert bytes(CounterLimit.objects.get().digest) == digest
        assert prune_limits() == 0
