"""Regions that reach each other over HTTP, as they should."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.test import Client, override_settings

from django_counters.contrib.regions.declared import Regions
from django_counters.contrib.regions.fencing import rename
from django_counters.contrib.regions.marks import PeerAway
from django_counters.contrib.regions.peers import DatabasePeer, HttpPeer, peers_of
from django_counters.contrib.regions.sql import CLOSED, Incarnation
from django_counters.models import CounterPosition
from tests.regions.between import eu_asks, send, signed
from tests.regions.regions import EU, US, Region, _regional, exchange, says  # noqa: F401 - a fixture
from tests.regions.serving import SECRET, over_http

pytestmark = pytest.mark.django_db(databases=["default", "other"])
THERE = DatabasePeer("other")


@pytest.fixture(name="address")
def _address(db: None) -> Iterator[str]:
    with over_http() as address:
        yield address


URLS = "django_counters.contrib.regions.urls"


def test_it_says_what_the_database_says(address: str) -> None:
    for key in ("likes:x", "likes:é", "likes:\U0001f600"):
        EU.count(key, 2**62)
        US.count(key, -(2**63) + 1)
    exchange(EU, US)
    asked = eu_asks(address)
    for region in ("eu", "us", "ap"):
        assert asked.marks(region) == THERE.marks(region)
        assert asked.heard(region) == THERE.heard(region)
    assert asked.homes() == THERE.homes() != {}
    found, known = asked.page(Incarnation("us", 1), 0), THERE.page(Incarnation("us", 1), 0)
    assert found is not None
    assert known is not None
    assert (found.clock, found.life) == (known.clock, known.life)
    assert sorted(found.entries) == sorted(known.entries)
    assert len(found.entries) == 3
    assert asked.page(Incarnation("us", 1), found.last) is None


def test_it_greets_and_closes_as_in_the_database(address: str) -> None:
    asked = eu_asks(address)
    assert asked.greet(Incarnation("eu", 1), says("a life")) == THERE.marks("eu")
    asked.close("eu", range(1, 3), says("another"))
    assert {one: at.timeline for one, at in THERE.marks("eu").items()} == {
        **{1: CLOSED, 2: CLOSED},
        3: "another",
    }
    assert asked.greet(Incarnation("eu", 2), says("a third"))[2].timeline == CLOSED


def test_a_region_that_was_renamed_is_found_under_both_names() -> None:
    """Before the settings of the others name it as it is named now."""
    usa = Region("usa", {"usa": "other", "eu": "default"})
    with over_http():
        EU.count("likes:x", 3)
        US.count("likes:x", 4)
        exchange(EU, US)
    with over_http(names={"us": "usa"}):
        usa.within(lambda using: rename("us", using))
        usa.count("likes:x", 5)
        exchange(EU, usa)
        assert EU.value("likes:x") == usa.value("likes:x") == 12


@pytest.mark.many_writers
@pytest.mark.django_db(databases=["default", "other"], transaction=True)
def test_servers_with_connections_of_their_own_see_the_same() -> None:
    with over_http(own=True):
        EU.count("likes:x", 3)
        US.count("likes:x", 4)
        exchange(EU, US)
        assert (EU.value("likes:x"), US.value("likes:x")) == (7, 7)
        EU.restore([(table, rows[:0]) for table, rows in EU.backup()])
        assert EU.fence().entries == 1
        exchange(EU, US)
        assert (EU.value("likes:x"), US.value("likes:x")) == (7, 7)


def test_a_secret_is_changed_without_an_outage(address: str) -> None:
    """Each step is made everywhere before the next one."""
    old, new = SECRET, SECRET[::-1]
    steps = [[old], [old, new], [new, old], [new]]
    for before, after in pairwise(steps):
        for ours, theirs in ((before, before), (before, after), (after, before), (after, after)):
            with override_settings(COUNTERS_REGION_SECRETS=theirs):
                assert eu_asks(address, ours[0]).marks("eu") == {}
    with (
        override_settings(COUNTERS_REGION_SECRETS=[old]),
        pytest.raises(PeerAway, match="does not accept the secret"),
    ):
        eu_asks(address, new).marks("eu")


def test_settings_say_which_peers_have_addresses() -> None:
    declared = Regions("eu", {"us": "https://us.example/x/", "ap": "other"})
    with override_settings(COUNTERS_REGION_SECRETS=[SECRET, SECRET[::-1]]):
        assert peers_of(declared) == {
            "us": HttpPeer("https://us.example/x/", "eu", "us", SECRET),
            "ap": DatabasePeer("other"),
        }
    assert SECRET not in repr(HttpPeer("https://us.example/x/", "eu", "us", SECRET))


def test_it_is_there_for_regions_alone(address: str) -> None:
    request = signed({"from": "eu", "to": "us", "ask": "homes"})
    assert send(f"{address}us/", request).status == 200
    assert send(f"{address}us/", request, "GET").status == 405
    asked = Client(enforce_csrf_checks=True)
    with override_settings(ROOT_URLCONF=URLS, COUNTERS_REGION="eu"):
        assert asked.post("/").status_code == 403
    with override_settings(ROOT_URLCONF=URLS, COUNTERS_REGION=None):
        assert asked.post("/").status_code == 404


def test_the_commands_say_what_is_wrong(address: str, capsys: pytest.CaptureFixture[str]) -> None:
    options = {
        "COUNTERS_REGION": "eu",
        "COUNTERS_REGIONS": {"us": f"{address}us/"},
        "COUNTERS_REGION_SECRETS": [SECRET],
    }
    EU.count("likes:x")
    with override_settings(**options):
        call_command("counters", "upkeep", "publish")
        call_command("counters", "upkeep", "pull")
    assert "1 entries published" in capsys.readouterr().out
    with (
        override_settings(**{**options, "COUNTERS_REGIONS": {"us": f"{address}us"}}),
        pytest.raises(CommandError, match=r"us: no region is at its address"),
    ):
        call_command("counters", "upkeep", "pull")
    assert CounterPosition.objects.using("other").get(source="region eu").timeline
