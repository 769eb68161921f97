"""The facts of a database: rates, and what is known when a part cannot be asked."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from datetime import timedelta
from uuid import uuid4

import pytest
from django.contrib.contenttypes.models import ContentType
from django.db import connection, connections
from django.test import override_settings
from django.test.utils import CaptureQueriesContext

from django_counters import clock
from django_counters.errors import CounterUnavailable
from django_counters.ledger import operations as ledger
from django_counters.metrics import facts
from django_counters.metrics.doctor import facts_of, findings
from django_counters.metrics.facts import Facts, InflowRate
from django_counters.models import (
    AdjustmentRequest,
    Counter,
    CounterBatch,
    SlottedCounter,
)
from django_counters.redis.routes import FAILURES
from django_counters.testing import override_counters
from django_counters.tokens import mint
from tests.testapp.models import Song

DJANGO = "django.core.cache.backends.redis.RedisCache"
CACHED = {"STRATEGY": "cached", "OPTIONS": {"timeout": 10}}
pytestmark = pytest.mark.django_db


def overview(using: str = "default") -> Facts:
    """All that can be known."""
    return facts_of(using, *facts.PARTS, *facts.feature_parts())


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


@pytest.fixture
def namespaces() -> Iterator[None]:
    likes, orders = {"STRATEGY": "sharded"}, {"STRATEGY": "ledger"}
    with override_counters(likes=likes, orders=orders, views=CACHED):
        yield


class TestRates:
    def test_what_landed_counts_in_its_periods(self) -> None:
        for total, minutes_ago in ((300, 1), (100, 9), (1000, 11), (5000, 61)):
            landed(total, minutes_ago)
        found = overview().parts["landed"]
        assert found == (InflowRate(10, 400), InflowRate(60, 1400))
        assert [rate.per_minute for rate in found] == [40, pytest.approx(1400 / 60)]

    def test_entries_count_by_the_time_of_their_tokens(self) -> None:
        for minutes_ago in (0, 9.9, 10.1, 59.9, 60.1, 600, -30):
            entered(minutes_ago)
        assert overview().parts["entries"] == (InflowRate(10, 2), InflowRate(60, 4))

    def test_more_than_can_be_counted_quickly_is_said_to_be_more(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(ledger, "MOST_ENTRIES", 2)
        for minutes_ago in (1, 2, 30):
            entered(minutes_ago)
        assert overview().parts["entries"] == (InflowRate(10, 2), InflowRate(60, 2, capped=True))

    @pytest.mark.parametrize("zone", ["Asia/Tokyo", "America/Los_Angeles"])
    def test_without_time_zones(self, zone: str) -> None:
        with override_settings(USE_TZ=False, TIME_ZONE=zone):
            landed(10, 1)
            landed(10, 70)
            entered(1)
            entered(70)
            found = overview()
        assert found.parts["landed"] == (InflowRate(10, 10), InflowRate(60, 10))
        assert found.parts["entries"] == (InflowRate(10, 1), InflowRate(60, 1))


class TestWhatWaits:
    def test_requests_that_nobody_has_decided(self) -> None:
        for state in ("waiting", "waiting", "rejected"):
            decider = "" if state == "waiting" else "bob"
            AdjustmentRequest.objects.create(
                **{"key": "a", "by": 1, "expected": 0, "reason": "stocktake", "state": state},
                **{"requester_name": "anna", "decider_name": decider},
            )
        assert overview().requests == 2


class TestAway:
    @pytest.mark.django_db(transaction=True)
    def test_the_breaker_is_that_of_those_who_count(self, unreachable: str) -> None:
        (redis,) = overview().parts["redis"]
        assert redis.breaker == "closed"
        views = {"STRATEGY": "cached", "ON_REDIS_DOWN": "raise"}
        with override_counters(views=views):
            for _ in range(FAILURES):
                with pytest.raises(CounterUnavailable):
                    Counter.objects.increment("views:a")
            (redis,) = overview().parts["redis"]
        # It may be half-open by now, on a machine that is busy.
        assert redis.breaker in ("open", "half-open")

    @pytest.mark.many_writers
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
        assert found == Facts("other", away=found.away)

    @pytest.mark.many_writers
    @pytest.mark.django_db(transaction=True, databases=["default", "other"])
    def test_findings_of_apps_while_the_database_is_away(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        other = connections["other"]
        other.close()
        host, other.settings_dict["HOST"] = other.settings_dict["HOST"], "/nonexistent"
        try:
            found = facts.gather(Facts("other"), "added")
        finally:
            other.settings_dict["HOST"] = host
            other.close()
        (away,) = found.away
        assert (found.added, "/nonexistent" in away.reason) == (None, True)
        assert caplog.records == []


@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("cached", "namespaces")
def test_nothing_is_asked_twice_and_findings_ask_nobody() -> None:
    """Before content types are known, and with something of each strategy that waits."""
    for key in ("likes:a", "orders:a", "views:a"):
        Counter.objects.increment(key)
    Song.objects.create().plays.increment()
    SlottedCounter.objects.increment(Song.objects.create(), "downloads")
    ContentType.objects.clear_cache()
    with CaptureQueriesContext(connection) as asked:
        found = overview()
    sent = [query["sql"] for query in asked.captured_queries]
    assert [sql for sql in set(sent) if sent.count(sql) > 1] == []
    with CaptureQueriesContext(connection) as asked:
        assert len(list(findings(found))) > 3
    assert len(asked) == 0
