"""A region that is restored counts nothing twice, and learns back what others have."""

from __future__ import annotations

import random
from collections import Counter as Tally
from itertools import product

import pytest

from django_counters.contrib.regions.errors import RegionRestored
from django_counters.contrib.regions.models import CounterRegion
from django_counters.contrib.regions.sql import store_of
from django_counters.models import (
    CounterPosition,
)
from django_counters.registry import registry
from django_counters.stores.base import Move
from django_counters.stores.sql.positions import Moved
from tests.regions.regions import (  # noqa: F401 - a fixture
    EU,
    US,
    Backup,
    Region,
    _regional,
    exchange,
)
from tests.regions.serving import _reached  # noqa: F401 - a fixture

pytestmark = pytest.mark.django_db(databases=["default", "other"])


def test_what_others_know_comes_back_once() -> None:
    EU.count("likes:x", 5)
    exchange(EU, US)
    EU.count("likes:y", 2)
    backup = EU.backup()
    EU.count("likes:x", 3)
    exchange(EU, US)
    EU.count("likes:x", 100)
    EU.restore(backup)
    with pytest.raises(RegionRestored, match="us has more of its counts than itself"):
        EU.publish()
    done = EU.fence()
    assert (done.restored, done.incarnation, done.entries, done.amount) == (True, 2, 2, 5)
    assert done.heard["us"] is not None
    exchange(EU, US)
    # The 3 came back; the 2 of the backup were published by now; the 100 nobody had.
    for region in (EU, US):
        assert (region.value("likes:x"), region.value("likes:y")) == (8, 2)
    EU.count("likes:x")
    exchange(EU, US)
    assert (EU.value("likes:x"), US.value("likes:x")) == (9, 9)
    assert (EU.value("likes:x", "eu"), US.value("likes:x", "eu")) == (9, 9)


def test_what_the_backup_alone_has_is_published() -> None:
    EU.count("hits:x", 5)
    EU.publish()
    EU.count("hits:y", 2)
    backup = EU.backup()
    EU.count("hits:x")
    exchange(EU, US)
    CounterRegion._base_manager.using("other").filter(key="hits:y").delete()
    EU.restore(backup)
    EU.fence()
    exchange(EU, US)
    assert EU.value("hits:x") == US.value("hits:x") == 6
    assert EU.value("hits:y") == US.value("hits:y") == 2


def test_where_nobody_knows_more_nothing_changes() -> None:
    EU.count("likes:x", 5)
    exchange(EU, US)
    EU.restore(EU.backup())
    done = EU.fence()
    assert (done.restored, done.incarnation) == (False, 1)
    EU.count("likes:x")
    exchange(EU, US)
    assert EU.value("likes:x") == US.value("likes:x") == 6


def test_a_page_that_was_read_before_is_of_no_use_afterwards() -> None:
    """Also where its region was not behind: its next version is another one."""
    EU.count("likes:x")
    exchange(EU, US)
    EU.restore(EU.backup())
    (read,) = CounterPosition.objects.using("other").filter(source="region eu")
    EU.publish()
    late = Move("region eu", "1", read.position, "2/2", read.timeline)
    with pytest.raises(Moved):
        registry.positions("other").move([late])


def test_nor_is_one_after_a_fence() -> None:
    """Also where the region has published nothing since, and its next version is the same."""
    EU.count("likes:x")
    exchange(EU, US)
    backup = EU.backup()
    EU.count("likes:x")
    exchange(EU, US)
    EU.restore(backup)
    (read,) = CounterPosition.objects.using("other").filter(source="region eu")
    EU.fence()
    for life in (read.timeline, store_of("default").life()):
        late = Move("region eu", "1", read.position, "9/9", life)
        with pytest.raises(Moved):
            registry.positions("other").move([late])


def test_what_others_have_learned_since_the_last_page_of_a_backup_counts_once() -> None:
    """Their newest entry contains what the backup had not published yet."""
    EU.count("likes:x", 5)
    exchange(EU, US)
    EU.count("likes:x", 20)
    backup = EU.backup()
    EU.count("likes:x", 300)
    exchange(EU, US)
    EU.count("likes:x", 4000)
    EU.restore(backup)
    EU.fence()
    exchange(EU, US)
    assert EU.value("likes:x") == US.value("likes:x") == 325


def test_it_is_noticed_what_a_peer_has_seen_and_not_copied() -> None:
    """A page passed the version of x, which was another one by then."""
    EU.count("likes:x")
    EU.publish()
    EU.count("likes:y")
    EU.publish()
    backup = EU.backup()
    EU.count("likes:x")
    EU.publish()
    positions = registry.positions("other")
    positions.make("region eu", "1")
    life = registry.positions("default").of("region eu")["1"].timeline
    positions.move([Move("region eu", "1", "", "2/3", life)])
    EU.restore(backup)
    with pytest.raises(RegionRestored):
        EU.publish()
    EU.fence()
    exchange(EU, US)
    assert EU.value("likes:x") == US.value("likes:x") == 1
    assert EU.value("likes:y") == US.value("likes:y") == 1


def test_an_empty_database_learns_what_it_was() -> None:
    EU.count("likes:x", 5)
    exchange(EU, US)
    nothing = [(table, rows[:0]) for table, rows in EU.backup()]
    EU.restore(nothing)
    with pytest.raises(RegionRestored):
        EU.publish()
    EU.fence()
    EU.count("likes:x")
    exchange(EU, US)
    assert EU.value("likes:x") == US.value("likes:x") == 6


def upkeep(step: str, region: Region, backup: Backup) -> None:
    if step == "publish":
        region.publish()
    elif step == "pull":
        region.pull()
    elif step == "both":
        exchange(EU, US)
    else:
        EU.restore(backup)
        EU.fence()


# Over HTTP each step is the same and takes thrice as long; what differs has tests of its own.
@pytest.mark.parametrize(
    ("reached", "seed"),
    [*product(["database"], range(3)), *product(["http"], range(1))],
    indirect=["reached"],
)
def test_nothing_counts_twice_in_any_order(seed: int) -> None:
    """Whatever happens, no region reads more than was counted; and they agree in the end."""
    chance = random.Random(seed)
    keys = ["likes:a", "likes:b", "hits:a"]
    counted: Tally[str] = Tally()
    backup = EU.backup()
    for _ in range(50):
        region = chance.choice([EU, US])
        step = chance.choice(["count", "count", "publish", "pull", "both", "backup", "restore"])
        if step == "count":
            key = chance.choice(keys)
            region.count(key)
            counted[key] += 1
        elif step == "backup":
            backup = EU.backup()
        else:
            upkeep(step, region, backup)
        for europe, america, key in zip(EU.values(keys), US.values(keys), keys, strict=True):
            assert max(europe, america) <= counted[key]
    exchange(EU, US)
    assert EU.values(keys) == US.values(keys)


def test_a_backup_from_before_another_server_was_started_copies_it_again() -> None:
    EU.count("likes:x")
    exchange(EU, US)
    US.restore(US.backup())
    positions = CounterPosition.objects.using("other").filter(source="region eu")
    positions.update(timeline="before it was started")
    US.fence()
    EU.count("likes:x")
    exchange(EU, US)
    assert EU.value("likes:x") == US.value("likes:x") == 2


def test_a_backup_from_before_another_fence_copies_what_has_ended() -> None:
    EU.count("likes:x")
    exchange(EU, US)
    europe, america = EU.backup(), US.backup()
    EU.count("likes:x")
    exchange(EU, US)
    EU.restore(europe)
    EU.fence()
    US.restore(america)
    US.fence()
    exchange(EU, US)
    assert EU.value("likes:x") == US.value("likes:x") == 2
