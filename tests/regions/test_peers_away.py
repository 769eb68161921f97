"""Regions that cannot be reached: nothing is decided without them, and the others go on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connection

from django_counters.contrib.regions.errors import RegionAway
from example_project.bootstrap.postgres import free_port
from tests.regions.regions import (  # noqa: F401 - a fixture
    DATABASES,
    EU,
    TABLES,
    US,
    Region,
    _regional,
    exchange,
    further,
)

pytestmark = pytest.mark.django_db(databases=["default", "other"])


@pytest.fixture(name="eu", params=["the first one is away", "the last one is away"])
def _eu(request: pytest.FixtureRequest) -> Iterator[Region]:
    """A region one of whose two peers is a server that is not there."""
    nowhere: dict[str, object] = {"NAME": "/nowhere/at/all"}
    if connection.vendor == "postgresql":
        nowhere = {"HOST": "127.0.0.1", "PORT": str(free_port()), "OPTIONS": {}}
    names = ["ap", "us"] if "first" in request.param else ["us", "ap"]
    databases = {**DATABASES, "ap": "nowhere"}
    with further("nowhere", **nowhere):
        yield Region("eu", {name: databases[name] for name in ["eu", *names]})


def all_rows(using: str) -> list[Any]:
    return [sorted(table._base_manager.using(using).values_list(), key=str) for table in TABLES]


def test_others_are_copied_and_it_is_said_who_is_away(eu: Region) -> None:
    US.count("likes:x", 4)
    US.publish()
    done = eu.pull()
    assert (done["us"].entries, done["us"].problem) == (1, "")
    assert (done["ap"].entries, done["ap"].busy) == (0, False)
    assert "could not be reached" in done["ap"].problem
    assert eu.value("likes:x") == 4


def test_a_region_that_has_asked_once_publishes_on(eu: Region) -> None:
    EU.count("likes:x")
    exchange(EU, US)
    EU.count("likes:x")
    assert eu.publish().entries == 1
    US.pull()
    assert US.value("likes:x") == 2


def test_a_region_that_was_started_asks_all_or_publishes_nothing(eu: Region) -> None:
    EU.count("likes:x")
    exchange(EU, US)
    EU.restore(EU.backup())
    EU.count("likes:x")
    before = all_rows("default")
    for _ in range(2):
        with pytest.raises(RegionAway, match=r"^ap can.t answer .* eu: .*could not be reached"):
            eu.publish()
    assert all_rows("default") == before
    # Who is told meanwhile waits, and loses nothing.
    US.pull()
    assert US.value("likes:x") == 1
    exchange(EU, US)
    assert EU.value("likes:x") == US.value("likes:x") == 2


@pytest.mark.parametrize("restored", [True, False])
def test_a_fence_asks_all_or_changes_nothing(eu: Region, restored: bool) -> None:
    EU.count("likes:x")
    exchange(EU, US)
    backup = EU.backup()
    if restored:
        EU.count("likes:x")
        exchange(EU, US)
        EU.restore(backup)
    before = [all_rows(using) for using in DATABASES.values()]
    for _ in range(2):
        with pytest.raises(RegionAway, match=r"^ap can.t answer .* eu: .*could not be reached"):
            eu.fence()
    assert [all_rows(using) for using in DATABASES.values()] == before
    assert EU.fence().restored == restored
    exchange(EU, US)
    assert EU.value("likes:x") == US.value("likes:x") == 1 + restored
