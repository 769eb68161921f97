"""Regions agree on what they have counted together, however often that is exchanged."""

from __future__ import annotations

from typing import Any

import pytest
from django.core.management import call_command
from django.db import connections
from django.test import override_settings
from django.test.utils import CaptureQueriesContext

from django_counters.contrib import holds
from django_counters.contrib.holds.errors import UnsupportedHold
from django_counters.contrib.regions import sql as stored
from django_counters.contrib.regions.errors import UnsupportedRegions
from django_counters.contrib.regions.models import CounterRegion
from django_counters.contrib.regions.publishing import publish
from django_counters.errors import (
    InvalidConfiguration,
    UnsupportedBounds,
    UnsupportedMaximum,
    UnsupportedReading,
)
from django_counters.models import (
    Counter,
)
from django_counters.upkeep import rollup
from tests.regions.regions import EU, US, _regional, exchange  # noqa: F401 - a fixture
from tests.regions.serving import _reached  # noqa: F401 - a fixture

pytestmark = pytest.mark.django_db(databases=["default", "other"])


@pytest.mark.parametrize("key", ["likes:x", "hits:x", "sales:x"])
def test_a_value_is_what_all_have_counted(key: str) -> None:
    EU.count(key, 3)
    US.count(key, 4)
    assert (EU.value(key), US.value(key)) == (3, 4)
    exchange(EU, US)
    assert (EU.value(key), US.value(key)) == (7, 7)
    assert [EU.value(key, "eu"), EU.value(key, "us")] == [3, 4]
    assert [US.value(key, "eu"), US.value(key, "us")] == [3, 4]
    EU.count(key, -5)
    assert EU.value(key) == 2
    exchange(EU, US)
    assert (EU.value(key), US.value(key)) == (2, 2)


@pytest.mark.parametrize("key", ["hits:x", "sales:x"])
def test_what_waits_is_published_and_its_rollup_is_no_change(key: str) -> None:
    EU.count(key, 3)
    exchange(EU, US)
    rollup(EU.using)
    assert EU.publish().entries == 0
    assert (EU.value(key), US.value(key)) == (3, 3)


def test_nothing_is_published_or_copied_again() -> None:
    EU.count("likes:x")
    assert EU.publish().entries == 1
    assert EU.publish().entries == 0
    assert US.pull()["eu"].entries == 1
    assert US.pull()["eu"].entries == 0
    assert US.value("likes:x") == 1


def test_pages_have_whole_versions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored, "_PAGE", 3)
    keys = [f"likes:{number}" for number in range(10)]
    for key in keys:
        EU.count(key)
    assert EU.publish().pages == 4
    monkeypatch.setattr(stored, "_PAGE", 2)
    done = US.pull()["eu"]
    # A version of three is copied together, whatever a page is.
    assert (done.entries, done.pages) == (10, 4)
    assert [US.value(key) for key in keys] == [1] * 10


def test_other_namespaces_are_not_published() -> None:
    EU.count("plain:x")
    EU.count("likesx")
    assert EU.publish().entries == 0


def test_values_are_one_query() -> None:
    EU.count("likes:x")
    EU.count("hits:x", 2)
    exchange(EU, US)
    with CaptureQueriesContext(connections["other"]) as queries:
        found = US.within(Counter.objects.values_of, ["likes:x", "hits:x", "likes:y"])
    assert found == {"likes:x": 1, "hits:x": 2, "likes:y": 0}
    assert len(queries) == 1


def test_a_counter_that_is_deleted_counts_nothing_in_its_region() -> None:
    EU.count("likes:x", 3)
    US.count("likes:x", 4)
    exchange(EU, US)
    Counter.objects.filter(key="likes:x").delete()
    exchange(EU, US)
    assert (EU.value("likes:x"), US.value("likes:x")) == (4, 4)


def test_what_no_region_can_promise_is_refused() -> None:
    with pytest.raises(UnsupportedRegions, match="Known regions: eu, us"):
        EU.value("likes:x", "ap")
    with pytest.raises(UnsupportedRegions, match="isn't REGIONAL"):
        EU.value("plain:x", "us")
    with pytest.raises(UnsupportedReading, match="a reading is of"):
        Counter.objects.read("likes:x")
    with pytest.raises(UnsupportedBounds):
        Counter.objects.decrement("likes:x", floor=0)
    with pytest.raises(UnsupportedMaximum):
        Counter.objects.maximum("likes:x", 3)
    with pytest.raises(UnsupportedHold):
        holds.hold("likes:x", 1, minutes=5, token="t")
    assert not CounterRegion._base_manager.exists()


def test_who_is_no_region_is_told_so() -> None:
    with (
        override_settings(COUNTERS_REGION=None),
        pytest.raises(InvalidConfiguration, match="COUNTERS_REGION"),
    ):
        publish()


def test_the_commands_say_what_they_did(capsys: Any) -> None:
    EU.count("likes:x")
    with override_settings(COUNTERS_REGION="eu", COUNTERS_REGIONS={"us": "other"}):
        call_command("counters", "upkeep", "publish")
    with override_settings(COUNTERS_REGION="us", COUNTERS_REGIONS={"eu": "default"}):
        call_command("counters", "upkeep", "pull", database="other")
    assert capsys.readouterr().out.splitlines() == [
        "1 entries published",
        "eu: 1 entries copied",
    ]
