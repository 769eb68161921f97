"""Three regions whose processes all count and exchange, while regions come and go."""

from __future__ import annotations

import os
from collections import Counter as Tally
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connections

from django_counters.contrib.regions.models import CounterRegion
from django_counters.testing import override_counters
from tests.concurrency.crowd import processes
from tests.mutants.databases import ORIGINAL
from tests.regions.exchanging import (
    CROWD,
    DATABASES,
    KEYS,
    NAMESPACES,
    REGIONS,
    STOCK,
    Board,
    among_regions,
    sold,
)
from tests.regions.regions import Region, exchange, further
from tests.regions.regions import _regional as _regional

pytestmark = [
    pytest.mark.rare,
    pytest.mark.postgresql,
    pytest.mark.django_db(transaction=True, databases=["default", "other"]),
]


@pytest.fixture(name="regions")
def _regions(transactional_db: None) -> Iterator[list[Region]]:
    """Regions of three databases, the third of which is made here."""
    made: Any = connections["default"]
    # A copy of the database that all are copies of: PostgreSQL copies none that has a session, and
    # of this one an earlier test may have left a thread with a session. Mutants have one original.
    shared = os.environ.get(ORIGINAL) or made.settings_dict["TEST"]["TEMPLATE"]
    first = made.ops.quote_name(shared)
    name = made.ops.quote_name(f"{made.settings_dict['NAME']}_third")
    with made._nodb_cursor() as cursor:
        cursor.execute(f"CREATE DATABASE {name} TEMPLATE {first}")
        try:
            with further("third", NAME=name.strip('"')), override_counters(**NAMESPACES):
                yield [Region(region, DATABASES) for region in REGIONS]
        finally:
            cursor.execute(f"DROP DATABASE {name} WITH (FORCE)")


def test_a_region_comes_and_one_is_taken_out_while_all_count(regions: list[Region]) -> None:
    """Each increment counts once, in all of them, whoever exchanges with whom at once.

    What one region has put in is sold by all of them, and nothing more.
    """
    regions[0].count("seats:x", STOCK)
    names = {alias: str(connections[alias].settings_dict["NAME"]) for alias in DATABASES.values()}
    told = sum(map(Tally, processes(CROWD, among_regions, Board.new(), names)), Tally[str]())
    counted = {one: {key: told[f"{one} {key}"] for key in KEYS} for one in REGIONS}
    exchange(*regions)
    for region in regions:
        assert {one: {key: region.value(key, one) for key in KEYS} for one in REGIONS} == counted
        for key in KEYS:
            assert region.value(key) == sum(sums[key] for sums in counted.values())
    assert min(sum(sums.values()) for sums in counted.values()) > 50
    assert told["entries"] > 50
    gone = {one: told[f"{one} sold"] for one in REGIONS}
    assert min(gone.values()) > 0
    assert min(told[f"{one} received"] for one in ("us", "ap")) > 0
    for region in regions * 5:
        # What is on the way at the end arrives, and each sells the last one that it has.
        exchange(*regions)
        while sold(region.name, 1):
            gone[region.name] += 1
    exchange(*regions)
    assert sum(gone.values()) == STOCK
    assert [region.value("seats:x") for region in regions] == [0] * 3


def test_an_empty_region_reads_all_after_it_has_asked(regions: list[Region]) -> None:
    eu, us, ap = regions
    eu.count("likes:x", 1)
    us.count("likes:x", 10)
    for region, others in ((eu, [us]), (us, [eu])):
        region.peers = {other.name: other.using for other in others}
    exchange(eu, us)
    assert ap.value("likes:x") == 0
    assert {name: done.entries for name, done in ap.pull().items()} == {"eu": 1, "us": 1}
    assert ap.value("likes:x") == 11
    ap.count("likes:x", 100)
    for region in (eu, us):
        region.peers["ap"] = ap.using
    exchange(ap, eu, us)
    assert [region.value("likes:x") for region in regions] == [111] * 3


@pytest.mark.parametrize("newest", ["us", "ap"])
def test_a_fence_learns_from_all(regions: list[Region], newest: str) -> None:
    """One of them has the newest entry of one counter, and nobody else has another counter."""
    eu, *others = regions
    late, first = sorted(others, key=lambda region: region.name == newest)
    eu.count("likes:x", 1)
    backup = eu.backup()
    eu.count("likes:x", 10)
    eu.count("likes:y", 100)
    exchange(eu, late)
    eu.count("likes:x", 1000)
    exchange(eu, first)
    CounterRegion._base_manager.using(first.using).filter(key="likes:y").delete()
    eu.restore(backup)
    assert eu.fence().restored
    exchange(*regions)
    exchange(*regions)
    found = [(region.value("likes:x"), region.value("likes:y")) for region in regions]
    assert found == [(1011, 100)] * 3


def test_what_a_region_has_told_stays_when_it_is_taken_out(regions: list[Region]) -> None:
    eu, us, ap = regions
    for region, by in zip(regions, (1, 10, 100), strict=True):
        region.count("likes:x", by)
    exchange(*regions)
    del eu.peers["us"], ap.peers["us"]
    us.count("likes:x", 1000)
    eu.count("likes:x", 1)
    exchange(us, eu, ap)
    assert [region.value("likes:x") for region in regions] == [112, 1112, 112]
    eu.peers["us"] = ap.peers["us"] = us.using
    exchange(*regions)
    assert [region.value("likes:x") for region in regions] == [1112] * 3
