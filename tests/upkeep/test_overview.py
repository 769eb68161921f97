"""The overview: how counters are doing, also when a part of it cannot be asked."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.db import connection, connections
from django.test import override_settings
from django.test.utils import CaptureQueriesContext

from django_counters import clock
from django_counters.exceptions import CounterUnavailable
from django_counters.models import (
    AdjustmentRequest,
    Counter,
    CounterBatch,
    CounterIncident,
    CounterShard,
    CounterSource,
)
from django_counters.stores.redis.breaker import FAILURES, Breaker
from django_counters.stores.sql.incidents import record
from django_counters.testing import override_counters
from django_counters.tokens import mint
from django_counters.upkeep import overview as module
from django_counters.upkeep.flush import flush
from django_counters.upkeep.overview import Overview, Rate, overview
from django_counters.upkeep.rollup import rollup
from tests.settling import let_others_end

DJANGO = "django.core.cache.backends.redis.RedisCache"
CACHED = {"STRATEGY": "cached", "OPTIONS": {"timeout": 10}}
pytestmark = pytest.mark.django_db


def landed(total: int, minutes_ago: float) -> None:
    CounterBatch.objects.create(
        generation=uuid4(),
        slot=0,
        source="default",
        applied_at=clock.now() - timedelta(minutes=minutes_ago),
        counters=1,
        total=total,
    )


def entered(minutes_ago: float) -> None:
    token = mint(clock.utc() - timedelta(minutes=minutes_ago))
    with override_counters(orders={"STRATEGY": "ledger"}):
        Counter.objects.increment("orders:a", token=str(token))


@pytest.fixture
def unreachable() -> Iterator[str]:
    """A Redis that nobody can reach, and that no other test has asked; its name."""
    address = f"unix:///nonexistent/{secrets.token_hex(6)}"
    caches = {"default": {"BACKEND": DJANGO, "LOCATION": address}}
    with override_settings(CACHES=caches), override_counters(views=CACHED):
        yield "default"


def test_where_nothing_is_counted_nothing_has_to_be_done() -> None:
    found = overview()
    assert (found.findings, found.away, found.spread) == ((), (), ())
    assert (found.incidents, found.requests) == ((), 0)
    assert found.landed == (Rate(10, 0), Rate(60, 0)) == found.entries


class TestRates:
    def test_what_landed_counts_in_its_periods(self) -> None:
        for total, minutes_ago in ((300, 1), (100, 9), (1000, 11), (5000, 61)):
            landed(total, minutes_ago)
        found = overview().landed
        assert found == (Rate(10, 400), Rate(60, 1400))
        assert [rate.per_minute for rate in found] == [40, pytest.approx(1400 / 60)]

    def test_entries_count_by_the_time_of_their_tokens(self) -> None:
        for minutes_ago in (0, 9.9, 10.1, 59.9, 60.1, 600, -30):
            entered(minutes_ago)
        assert overview().entries == (Rate(10, 2), Rate(60, 4))

    def test_more_than_can_be_counted_quickly_is_said_to_be_more(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(module, "MOST_ENTRIES", 2)
        for minutes_ago in (1, 2, 30):
            entered(minutes_ago)
        assert overview().entries == (Rate(10, 2), Rate(60, 2, capped=True))

    @pytest.mark.parametrize("zone", ["UTC", "Asia/Tokyo", "America/Los_Angeles"])
    def test_without_time_zones(self, zone: str) -> None:
        with override_settings(USE_TZ=False, TIME_ZONE=zone):
            landed(10, 1)
            landed(10, 70)
            entered(1)
            entered(70)
            found = overview()
        assert found.landed == (Rate(10, 10), Rate(60, 10))
        assert found.entries == (Rate(10, 1), Rate(60, 1))


class TestWhatWaits:
    def test_shards_where_they_belong_are_shown_and_need_nobody(self) -> None:
        with override_counters(likes={"STRATEGY": "sharded"}):
            Counter.objects.increment("likes:a")
            found = overview()
        assert [(one.subject, one.counters) for one in found.spread or ()] == [("likes", 1)]
        assert found.findings == ()

    def test_those_that_are_left_have_a_command(self) -> None:
        CounterShard.objects.increment("likes:a")
        (finding,) = overview().findings
        assert finding.command == "manage.py counters rollup"
        rollup()
        assert overview().findings == ()

    @pytest.mark.django_db(transaction=True)
    def test_the_ledger(self) -> None:
        entered(0)
        ledger = overview().ledger
        assert ledger is not None
        assert (ledger.entries, ledger.counters) == (1, 1)
        let_others_end()
        rollup()
        let_others_end()
        rollup()
        ledger = overview().ledger
        assert ledger is not None
        assert (ledger.entries, ledger.counters) == (0, 0)
        assert ledger.lag is not None
        assert timedelta(0) <= ledger.lag < timedelta(minutes=5)

    @pytest.mark.django_db(transaction=True)
    def test_redis(self, cached: str) -> None:
        Counter.objects.increment_many({"views:a": 1, "views:b": 1})
        (redis,) = overview().redises or ()
        assert (redis.name, redis.problem, redis.breaker) == ("default", "", "closed")
        assert redis.waits is not None
        assert redis.waits.counters == 2
        assert redis.lag is not None
        assert timedelta(0) <= redis.lag < timedelta(minutes=1)
        flush()
        found = overview()
        (redis,) = found.redises or ()
        assert redis.waits is not None
        assert (redis.waits.counters, redis.lag) == (0, None)
        assert found.landed == (Rate(10, 2), Rate(60, 2))

    def test_requests_that_nobody_has_decided(self) -> None:
        for state in ("waiting", "waiting", "rejected"):
            decider = "" if state == "waiting" else "bob"
            AdjustmentRequest.objects.create(
                **{"key": "a", "by": 1, "expected": 0, "reason": "stocktake", "state": state},
                **{"requester_name": "anna", "decider_name": decider},
            )
        assert overview().requests == 2

    def test_incidents_by_kind(self) -> None:
        for subject in ("a", "b"):
            record(CounterIncident.Kind.DRIFT, subject, {"expected": 1, "found": 2}, "default")
        record(CounterIncident.Kind.OVERFLOW, "a", {}, "default")
        old = CounterIncident.objects.create(kind="lost", subject="a")
        CounterIncident.objects.filter(pk=old.pk).update(found_at=clock.now() - timedelta(days=8))
        found = overview()
        assert [(one.kind, one.number) for one in found.incidents or ()] == [
            ("drift", 2),
            ("overflow", 1),
        ]
        assert [one.command for one in found.findings] == ["manage.py counters verify", ""]


class TestAway:
    def test_a_redis_that_is_away_is_said_to_be(self, unreachable: str) -> None:
        found = overview()
        (redis,) = found.redises or ()
        assert (redis.name, redis.waits, redis.lag) == (unreachable, None, None)
        assert redis.problem
        assert [one.action for one in found.findings] == [f"it cannot be asked: {redis.problem}"]
        assert found.ledger is not None

    @pytest.mark.django_db(transaction=True)
    def test_the_breaker_is_that_of_those_who_count(self, unreachable: str) -> None:
        (redis,) = overview().redises or ()
        assert redis.breaker == "closed"
        views = {"STRATEGY": "cached", "ON_REDIS_DOWN": "raise"}
        with override_counters(views=views):
            for _ in range(FAILURES):
                with pytest.raises(CounterUnavailable):
                    Counter.objects.increment("views:a")
            (redis,) = overview().redises or ()
        # It may be half-open by now, on a machine that is busy.
        assert redis.breaker in ("open", "half-open")

    def test_one_that_cannot_be_found(self) -> None:
        CounterSource.objects.create(source="gone", slot=0, seen_at=clock.now())
        by_name = {one.name: one for one in overview().redises or ()}
        assert by_name["gone"].breaker is None
        assert "there is no cache 'gone'" in by_name["gone"].problem

    def test_wrong_settings_end_it(self) -> None:
        with override_settings(COUNTERS={"likes": {"STRATEGY": "shardet"}}):
            found = overview()
        (finding,) = found.findings
        assert found == Overview("default", findings=(finding,))
        assert finding.command == "manage.py check"

    def test_a_table_that_is_missing(self) -> None:
        with connection.cursor() as cursor:
            cursor.execute("ALTER TABLE django_counters_countersource RENAME TO something_else")
        found = overview()
        assert [one.command for one in found.findings] == ["manage.py migrate"]
        assert found.ledger is None

    def test_a_part_that_fails_leaves_the_others(self) -> None:
        landed(10, 1)
        with connection.cursor() as cursor:
            cursor.execute(
                "ALTER TABLE django_counters_counterincident RENAME COLUMN found_at TO seen"
            )
        found = overview()
        assert found.incidents is None
        assert [one.part for one in found.away] == ["incidents"]
        assert "found_at" in found.away[0].reason
        assert found.landed == (Rate(10, 10), Rate(60, 10))
        # The transaction goes on.
        assert Counter.objects.value("a") == 0

    @pytest.mark.postgres
    @pytest.mark.django_db(transaction=True, databases=["default", "other"])
    def test_a_database_that_is_away(self) -> None:
        other = connections["other"]
        other.close()
        host, other.settings_dict["HOST"] = other.settings_dict["HOST"], "/nonexistent"
        try:
            found = overview("other")
        finally:
            other.settings_dict["HOST"] = host
            other.close()
        (away,) = found.away
        assert away.part == "database"
        assert "/nonexistent" in away.reason
        assert found == Overview("other", away=found.away)


def statements() -> list[Any]:
    with CaptureQueriesContext(connection) as queries:
        overview()
    return queries.captured_queries


def test_the_number_of_queries_does_not_grow_with_the_counters() -> None:
    def some(kind: str) -> None:
        with override_counters(likes={"STRATEGY": "sharded"}):
            Counter.objects.increment(f"likes:{kind}")
        landed(1, 1)
        entered(1)
        record(CounterIncident.Kind.DRIFT, kind, {"expected": 1, "found": 2}, "default")

    some("0")
    few = statements()
    for number in range(1, 30):
        some(str(number))
    many = statements()
    assert len(many) == len(few), [query["sql"][:80] for query in many]
    # One for each counter of the models that has slots, and savepoints.
    assert len(few) < 90


class TestBreaker:
    def test_its_state(self) -> None:
        now = 0.0
        breaker = Breaker(failures=2, pause=1, clock=lambda: now)
        states: list[str] = [breaker.state]
        for _ in range(2):
            ticket = breaker.admit()
            assert ticket is not None
            breaker.failed(ticket)
            states.append(breaker.state)
        now = 1.0
        states.append(breaker.state)
        ticket = breaker.admit()
        assert ticket is not None
        states.append(breaker.state)
        breaker.succeeded(ticket)
        states.append(breaker.state)
        assert states == ["closed", "closed", "open", "half-open", "half-open", "closed"]
