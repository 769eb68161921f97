"""A region gets another name, and others come and go, while all of them count."""

from __future__ import annotations

from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import OperationalError
from django.test import override_settings

from django_counters.contrib.regions.errors import RegionAway, RegionRestored, UnsupportedRegions
from django_counters.contrib.regions.fencing import rename
from django_counters.contrib.regions.models import CounterRegion
from django_counters.contrib.regions.sql import SqlRegions
from django_counters.errors import InvalidConfiguration
from django_counters.stores.sql.positions import SqlPositions
from tests.regions.regions import EU, US, Region, _regional, exchange, meanwhile  # noqa: F401

pytestmark = pytest.mark.django_db(databases=["default", "other"])

USA = Region("usa", {"usa": "other", "eu": "default"})
EU_AFTER = Region("eu", {"eu": "default", "usa": "other"})


def renamed(former: str = "us") -> int:
    done: int = USA.within(lambda using: rename(former, using))
    return done


@pytest.mark.parametrize("key", ["likes:x", "hits:x", "sales:x"])
def test_what_was_counted_stays_and_what_follows_is_counted(key: str) -> None:
    EU.count(key, 3)
    US.count(key, 4)
    exchange(EU, US)
    US.count(key, 5)
    assert renamed() == 1
    USA.count(key, 6)
    for europe in (EU, EU_AFTER):
        exchange(europe, USA)
        assert europe.value(key) == USA.value(key) == 18
        assert [europe.value(key, "eu"), europe.value(key, "us")] == [3, 9]
    assert [EU_AFTER.value(key, "usa"), USA.value(key, "usa")] == [6, 6]
    with pytest.raises(UnsupportedRegions, match="the region 'ap' is unknown"):
        EU_AFTER.value(key, "ap")


def test_others_learn_it_whenever_they_are_told() -> None:
    """Also a page that was read before is of no use afterwards."""
    US.count("likes:x", 4)
    US.publish()
    renamed()
    USA.count("likes:x")
    USA.publish()
    assert EU.pull()["us"].entries == 2
    assert EU.value("likes:x") == 5


def test_what_is_counted_between_the_two_statements_is_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """After the last publication under the former name, and before the new one begins."""
    US.count("likes:x", 4)
    exchange(EU, US)
    begin, counted = SqlRegions.begin, list[int]()

    def later(store: SqlRegions, *args: Any, **options: Any) -> None:
        if not counted:
            US.count("likes:x", 2)
            counted.append(2)
        begin(store, *args, **options)

    monkeypatch.setattr(SqlRegions, "begin", later)
    renamed()
    exchange(EU, USA)
    assert EU.value("likes:x") == USA.value("likes:x") == 6
    assert USA.value("likes:x", "usa") == 2


def test_repeated_it_changes_nothing() -> None:
    US.count("likes:x", 4)
    exchange(EU, US)
    renamed()
    assert renamed() == 0
    exchange(EU, USA)
    assert EU.value("likes:x") == USA.value("likes:x") == 4


def test_it_can_be_restored_and_renamed_afterwards() -> None:
    US.count("likes:x", 4)
    exchange(EU, US)
    renamed()
    USA.count("likes:x")
    exchange(EU, USA)
    backup = USA.backup()
    USA.count("likes:x", 2)
    exchange(EU, USA)
    USA.restore(backup)
    USA.fence()
    exchange(EU, USA)
    assert EU.value("likes:x") == USA.value("likes:x") == 7


def test_another_name_in_the_settings_alone_does_nothing() -> None:
    """The same holds for a copy of a database with a name of its own: it would count twice."""
    US.count("likes:x", 4)
    exchange(EU, US)
    for step in (USA.publish, USA.fence):
        with pytest.raises(InvalidConfiguration, match="regions rename us"):
            step()
    assert EU.value("likes:x") == 4


def test_what_cannot_be_renamed() -> None:
    US.count("likes:x", 4)
    with pytest.raises(InvalidConfiguration, match="published nothing as 'us'"):
        renamed()
    exchange(EU, US)
    with pytest.raises(InvalidConfiguration, match="published nothing as 'ap'"):
        renamed("ap")
    backup = US.backup()
    US.count("likes:x")
    exchange(EU, US)
    US.restore(backup)
    with pytest.raises(RegionRestored):
        renamed()
    US.fence()
    US.publish()
    US.count("stock:x", 3)
    with pytest.raises(InvalidConfiguration, match="Send it to others"):
        renamed()
    US.send("stock:x", 3, EU)
    assert renamed() > 0
    assert not CounterRegion._base_manager.using("default").filter(region="usa").exists()


def test_a_name_that_somebody_has_is_refused() -> None:
    EU.count("likes:x", 4)
    US.count("likes:x", 4)
    exchange(EU, US)
    ours = Region("eu", {"eu": "other", "ap": "default"})
    with pytest.raises(InvalidConfiguration, match="ap already has counts of a region 'eu'"):
        ours.within(lambda using: rename("us", using))


def test_nobody_sends_stock_to_a_name_that_has_ended() -> None:
    EU.count("stock:x", 4)
    exchange(EU, US)
    US.count("likes:x")
    exchange(EU, US)
    renamed()
    exchange(EU, USA)
    with pytest.raises(RegionAway, match="Run counters upkeep pull"):
        EU.send("stock:x", 1, US)
    exchange(EU_AFTER, USA)
    assert EU_AFTER.send("stock:x", 1, USA) == 3
    exchange(EU_AFTER, USA)
    assert USA.value("stock:x", "usa") == 1


def test_a_region_that_is_gone_still_counts() -> None:
    EU.count("likes:x", 3)
    US.count("likes:x", 4)
    exchange(EU, US)
    alone = Region("eu", {"eu": "default"})
    alone.count("likes:x")
    alone.publish()
    assert alone.pull() == {}
    assert (alone.value("likes:x"), alone.value("likes:x", "us")) == (8, 4)


def test_a_region_that_comes_later_reads_all() -> None:
    alone = Region("eu", {"eu": "default"})
    alone.count("likes:x", 3)
    alone.publish()
    US.count("likes:x", 4)
    exchange(EU, US)
    assert EU.value("likes:x") == US.value("likes:x") == 7


def test_the_command_renames(capsys: Any) -> None:
    US.count("likes:x")
    US.publish()
    with override_settings(COUNTERS_REGION="usa", COUNTERS_REGIONS={"eu": "default"}):
        with pytest.raises(CommandError, match="the region's former name"):
            call_command("counters", "regions", "rename", database="other")
        call_command("counters", "regions", "rename", "us", database="other")
    assert capsys.readouterr().out.splitlines() == ["us has ended; 0 entries published"]


def test_where_a_region_is_away_nothing_is_renamed(monkeypatch: pytest.MonkeyPatch) -> None:
    US.count("likes:x")
    exchange(EU, US)

    def away() -> None:
        raise OperationalError("no route")

    meanwhile(monkeypatch, SqlPositions.of, "default", away)
    with pytest.raises(RegionAway, match="no route"):
        renamed()
    US.count("likes:x")
    exchange(EU, US)
    assert EU.value("likes:x") == 2
