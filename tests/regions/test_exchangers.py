"""Several who publish, greet or fence for one region: each at a moment of another one."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from django.db import connections

from django_counters.contrib.regions.errors import RegionAway, RegionRestored
from django_counters.contrib.regions.marks import Marks
from django_counters.contrib.regions.peers import DatabasePeer
from django_counters.contrib.regions.sql import SqlRegions
from django_counters.models import CounterPosition
from django_counters.stores.sql.positions import SqlPositions
from tests.regions.regions import EU, US, _regional, exchange, meanwhile  # noqa: F401 - a fixture

pytestmark = pytest.mark.django_db(databases=["default", "other"])


@pytest.fixture
def life(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What servers say of themselves: the last of these words."""
    lives = ["one"]
    monkeypatch.setattr(SqlRegions, "life", lambda _self: lives[-1])
    return lives


def count_and_exchange() -> None:
    EU.count("likes:x")
    exchange(EU, US)


@pytest.mark.parametrize("step", ["publish", "fence"])
def test_a_region_that_others_publish_for_was_not_restored(
    monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """What a peer knows is compared with a clock that is read later."""
    count_and_exchange()
    meanwhile(monkeypatch, SqlPositions.of, "other", count_and_exchange)
    done = getattr(EU, step)()
    assert not getattr(done, "restored", False)
    assert EU.value("likes:x") == US.value("likes:x") == 2


def test_a_region_that_somebody_begins_at_once_is_no_other_region(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    EU.count("likes:x")
    homes = DatabasePeer.homes

    def later(there: DatabasePeer) -> Mapping[str, Marks]:
        monkeypatch.setattr(DatabasePeer, "homes", homes)
        EU.publish()
        return homes(there)

    monkeypatch.setattr(DatabasePeer, "homes", later)
    assert EU.publish().entries == 0
    exchange(EU, US)
    assert EU.value("likes:x") == US.value("likes:x") == 1


@pytest.mark.parametrize("step", ["publish", "fence"])
def test_nor_was_one_that_others_greet_for(
    monkeypatch: pytest.MonkeyPatch, life: list[str], step: str
) -> None:
    count_and_exchange()
    life.append("two")
    meanwhile(monkeypatch, SqlRegions.transaction, "other", count_and_exchange)
    done = getattr(EU, step)()
    assert not getattr(done, "restored", False)
    assert EU.value("likes:x") == US.value("likes:x") == 2


def test_who_greets_late_tells_the_present_life(
    monkeypatch: pytest.MonkeyPatch, life: list[str]
) -> None:
    """By one who began in a former life of the server, behind a pooler."""
    count_and_exchange()
    life.append("two")

    def restarted() -> None:
        life.append("three")
        count_and_exchange()

    meanwhile(monkeypatch, SqlPositions.of, "other", restarted)
    assert EU.publish().busy
    rows = CounterPosition.objects.filter(source="region eu")
    labels = [rows.using(alias).get().timeline for alias in ("default", "other")]
    assert labels == ["three", "three"]
    EU.count("likes:x")
    exchange(EU, US)
    assert EU.value("likes:x") == US.value("likes:x") == 3


def test_a_peer_that_was_restored_is_told_the_present_life_again(life: list[str]) -> None:
    """It knows a former life alone, and would copy nothing more."""
    count_and_exchange()
    backup = CounterPosition.objects.using("other").get(source="region eu")
    life.append("two")
    count_and_exchange()
    backup.save(using="other")
    EU.count("likes:x")
    exchange(EU, US)
    assert EU.value("likes:x") == US.value("likes:x") == 3


def test_a_page_is_published_in_the_life_that_has_asked(
    monkeypatch: pytest.MonkeyPatch, life: list[str]
) -> None:
    """A pooler goes on with a server that was put back, and says nothing."""
    count_and_exchange()
    backup = EU.backup()
    count_and_exchange()

    def restored() -> None:
        for table, rows in backup:
            table._base_manager.using(EU.using).all().delete()
            table._base_manager.using(EU.using).bulk_create(rows)
        EU.count("likes:y")
        life.append("two")

    meanwhile(monkeypatch, SqlPositions.hold, "default", restored)
    assert (EU.publish().entries, len(life)) == (0, 2)
    with pytest.raises(RegionRestored):
        EU.publish()
    EU.fence()
    exchange(EU, US)
    assert EU.value("likes:x") == US.value("likes:x") == 2


def test_who_greets_while_somebody_fences_changes_nothing(
    monkeypatch: pytest.MonkeyPatch, life: list[str]
) -> None:
    """What has ended stays so: to publish in it would replace what others have by less."""
    count_and_exchange()
    backup = EU.backup()
    count_and_exchange()
    EU.restore(backup)
    life.append("two")

    def fenced() -> None:
        EU.fence()
        count_and_exchange()

    meanwhile(monkeypatch, SqlRegions.transaction, "other", fenced)
    with pytest.raises(RegionAway, match="another process"):
        EU.publish()
    for alias in ("default", "other"):
        rows = CounterPosition.objects.using(alias).filter(source="region eu")
        assert rows.get(part="1").timeline == "closed"
    exchange(EU, US)
    assert EU.value("likes:x") == US.value("likes:x") == 3


def test_who_has_greeted_while_somebody_fences_changes_nothing(
    monkeypatch: pytest.MonkeyPatch, life: list[str]
) -> None:
    """All peers were asked before the fence, and it has ended what they were asked of."""
    count_and_exchange()
    life.append("two")
    meanwhile(monkeypatch, SqlPositions.relabel, "default", lambda: EU.fence(restored=True))
    assert EU.publish().busy
    rows = CounterPosition.objects.filter(source="region eu")
    assert rows.get(part="1").timeline == "closed"
    count_and_exchange()
    assert EU.value("likes:x") == US.value("likes:x") == 2


def test_who_has_greeted_in_a_former_life_changes_nothing(
    monkeypatch: pytest.MonkeyPatch, life: list[str]
) -> None:
    """A pooler goes on with a server that was put back and fenced, and says nothing."""
    backup = EU.backup()
    count_and_exchange()
    life.append("two")

    def fenced() -> None:
        EU.restore(backup)
        life.append("three")
        EU.fence()

    # Between what the peer is told and what is written down at home.
    meanwhile(monkeypatch, SqlRegions.transaction, "default", fenced)
    assert (EU.publish().entries, life[-1]) == (0, "three")
    for alias in ("default", "other"):
        rows = CounterPosition.objects.using(alias).filter(source="region eu")
        assert rows.get(part="1").timeline == "closed"


def test_two_fences_at_once_are_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """The other one would end what has begun, and forget what was counted in it."""
    count_and_exchange()
    backup = EU.backup()
    count_and_exchange()
    EU.restore(backup)

    def fenced() -> None:
        EU.fence()
        count_and_exchange()
        EU.count("likes:x")

    meanwhile(monkeypatch, SqlRegions.transaction, "other", fenced)
    with pytest.raises(RegionAway, match="another process"):
        EU.fence()
    exchange(EU, US)
    assert EU.value("likes:x") == US.value("likes:x") == 4
    assert EU.fence().restored is False


@pytest.mark.many_writers
@pytest.mark.django_db(transaction=True, databases=["default", "other"])
def test_who_comes_second_is_told_that_somebody_is_busy() -> None:
    """A row that is held is passed over, and nothing is changed."""
    count_and_exchange()
    EU.count("likes:x")
    US.count("likes:x")
    held = "SELECT FROM django_counters_counterposition WHERE source = 'region eu' FOR UPDATE"
    for region, step in ((EU, EU.publish), (US, US.pull)):
        other = connections[region.using].copy()
        try:
            other.set_autocommit(False)
            other.cursor().execute(held)
            done = step()
            assert (done["eu"] if isinstance(done, dict) else done).busy
        finally:
            other.close()
    exchange(EU, US)
    assert EU.value("likes:x") == US.value("likes:x") == 3
