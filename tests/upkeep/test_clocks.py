"""A host with a wrong clock: what is dropped and forgotten is decided by that of the database."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest
from django.db import connection

from django_counters import clock
from django_counters.errors import TokenExpired
from django_counters.ledger.upkeep import PartitionReport, maintain, partitions_ahead
from django_counters.models import Counter, CounterBatch, CounterDelta, CounterPosition
from django_counters.stores.sql.session import Session
from django_counters.testing import assert_counts, override_counters
from django_counters.tokens import mint
from django_counters.upkeep import prune_landed, rollup
from tests.regions.regions import EU, US, Region, exchange
from tests.regions.regions import _regional as _regional

pytestmark = pytest.mark.django_db
DAYS = (-40, 3, 8, 40)


@pytest.fixture
def _midnight_may_have_come() -> None:
    maintain()


@pytest.mark.usefixtures("_midnight_may_have_come")
@pytest.mark.parametrize("days", DAYS)
def test_no_token_counts_twice_and_everybody_counts_on(
    days: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    present = datetime.now(UTC)
    with override_counters(e={"STRATEGY": "ledger", "OPTIONS": {"retention_days": 4}}):
        token = mint(present - timedelta(hours=10))
        Counter.objects.increment("e:a", token=token)
        rollup()
        with monkeypatch.context() as wrong:
            wrong.setattr(clock, "utc", lambda: present + timedelta(days=days))
            wrong.setattr(clock, "now", lambda: present + timedelta(days=days))
            assert maintain(ahead=3) == PartitionReport()
            assert partitions_ahead("default") in (None, 7)
            maintain()
        assert CounterDelta.objects.append("e:a", 1, token=token).replayed
        Counter.objects.increment("e:a")
        assert_counts({"e:a": 2})


@pytest.mark.parametrize("days", DAYS)
def test_generations_are_remembered(days: int, monkeypatch: pytest.MonkeyPatch) -> None:
    CounterBatch._base_manager.create(
        generation=uuid4(), slot=0, source="default", applied_at=clock.now(), counters=1, total=1
    )
    present = datetime.now(UTC)
    monkeypatch.setattr(clock, "utc", lambda: present + timedelta(days=days))
    assert prune_landed() == 0
    CounterBatch._base_manager.update(applied_at=present - timedelta(days=31))
    assert prune_landed() == 1


def test_the_clock_of_the_database() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")
    before = datetime.now(UTC) - timedelta(seconds=5)
    assert before < Session("default").now() < before + timedelta(seconds=10)
    with pytest.raises(TokenExpired):
        CounterDelta.objects.append("e:a", 1, token=mint(before - timedelta(days=40)))


@pytest.mark.django_db(databases=["default", "other"])
@pytest.mark.parametrize("days", DAYS)
def test_regions_ask_no_clock(days: int, monkeypatch: pytest.MonkeyPatch, regional: None) -> None:
    """What is newer is said by versions: hosts and servers may be wrong by days, each its own way.

    A server whose clock is wrong leaves moments in its rows.
    """
    off = (timedelta(days=days), timedelta(days=-2 * days))

    def wrong(region: Region, ahead: timedelta) -> None:
        moment = datetime.now(UTC) + ahead
        monkeypatch.setattr(clock, "utc", lambda: moment)
        monkeypatch.setattr(clock, "now", lambda: moment)
        CounterPosition.objects.using(region.using).update(moved_at=moment)
        Counter.objects.using(region.using).update(updated_at=moment)

    for turn in range(3):
        for region, ahead in zip((EU, US), off, strict=True):
            wrong(region, ahead)
            region.count("likes:x")
            exchange(region)
        if turn == 1:
            backup = EU.backup()
    EU.restore(backup)
    wrong(EU, off[1])
    assert (EU.fence().restored, EU.publish().busy) == (True, False)
    EU.count("likes:x")
    wrong(US, off[0])
    exchange(EU, US)
    exchange(EU, US)
    assert EU.value("likes:x") == US.value("likes:x") == 7
