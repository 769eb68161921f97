"""What each region has counted, on the page of a counter, and how old that is, on the overview."""

from __future__ import annotations

import pytest
from django.contrib.admin.utils import quote
from django.db import connection, connections
from django.test import Client, override_settings
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from django_counters.contrib.regions.reading import by_region
from django_counters.testing import override_counters
from django_counters.upkeep import rollup
from tests.admin.reading import html_of, rows_of
from tests.admin.test_page import section
from tests.regions.regions import EU, US, _regional, exchange

pytestmark = pytest.mark.django_db(databases=["default", "other"])
OVERVIEW = reverse("admin:django_counters_overview")


def page(client: Client, key: str) -> str:
    with EU.settings():
        return html_of(client, reverse("admin:django_counters_counter_change", args=[quote(key)]))


@pytest.mark.parametrize("key", ["likes:x", "hits:x", "sales:x"])
def test_what_each_region_has_counted(viewer: Client, key: str) -> None:
    EU.count(key, 3)
    US.count(key, 4)
    exchange(EU, US)
    rollup(EU.using)
    EU.count(key)
    head, *rows = rows_of(section(page(viewer, key), "regions"))
    assert head == ["Region", "Amount"]
    assert rows == [["eu", "4"], ["us", "4"], ["Together", "8"]]
    with EU.settings(), CaptureQueriesContext(connection) as queries:
        assert by_region(key, "default") == {"eu": 4, "us": 4}
    assert len(queries) == 1


def test_a_region_that_was_restored_counts_once(viewer: Client) -> None:
    EU.count("likes:x", 5)
    backup = EU.backup()
    EU.count("likes:x", 3)
    US.count("likes:x", 4)
    exchange(EU, US)
    EU.restore(backup)
    EU.fence()
    EU.count("likes:x")
    exchange(EU, US)
    rows = rows_of(section(page(viewer, "likes:x"), "regions"))[1:]
    assert rows == [["eu", "9"], ["us", "4"], ["Together", "13"]]
    assert EU.value("likes:x") == US.value("likes:x") == 13


def test_other_counters_have_no_regions(viewer: Client) -> None:
    EU.count("plain:x")
    assert "counters-regions" not in page(viewer, "plain:x")


def test_wrong_settings_hide_no_counter(viewer: Client) -> None:
    EU.count("likes:x", 3)
    url = reverse("admin:django_counters_counter_change", args=[quote("likes:x")])
    with override_settings(COUNTERS_REGION="eu", COUNTERS_REGIONS={"us": "nowhere"}):
        shown = html_of(viewer, url)
        assert "neither an alias of DATABASES" in html_of(viewer, OVERVIEW)
    assert "counters-exact" in shown
    assert "counters-regions" not in shown


def test_a_redis_that_is_away_hides_no_counter(viewer: Client) -> None:
    away = {"STRATEGY": "cached", "CACHE": "redis://127.0.0.1:1/0", "REGIONAL": True}
    with override_counters(views={"REGIONAL": True}):
        EU.count("views:x", 3)
    with override_counters(views=away):
        shown = page(viewer, "views:x")
    assert "could not be reached" in shown
    assert "counters-regions" not in shown


def test_how_old_it_is(viewer: Client) -> None:
    with EU.settings():
        never = section(html_of(viewer, OVERVIEW), "regions")
    assert [row[2] for row in rows_of(never)[1:]] == ["never", "never"]
    exchange(EU, US)
    EU.pass_time(3600)
    EU.publish()
    with EU.settings(), CaptureQueriesContext(connections["other"]) as queries:
        head, own, peer = rows_of(section(html_of(viewer, OVERVIEW), "regions"))
    assert len(queries) == 0
    assert head == ["Region", "Exchange", "Lag"]
    assert own[:2] == ["eu", "published by this region"]
    assert own[2].split()[1].startswith("second")
    assert peer == ["us", "copied by this region", "1 hour"]


def test_a_site_without_regions_has_no_such_section(viewer: Client) -> None:
    with override_settings(COUNTERS_REGION=None):
        assert "counters-regions" not in html_of(viewer, OVERVIEW)
