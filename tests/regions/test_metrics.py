"""What a scrape says of regions."""

from __future__ import annotations

import pytest
from django.db import connections
from django.test import override_settings
from django.test.utils import CaptureQueriesContext

from django_counters.contrib.regions.state import LAG, PUBLISH_AGE
from django_counters.metrics import samples
from django_counters.metrics.samples import samples_of, scraping
from tests.metrics.test_state import Values, by_name
from tests.regions.regions import EU, US, _regional, exchange  # noqa: F401 - a fixture

pytestmark = pytest.mark.django_db(databases=["default", "other"])


def now() -> dict[str, Values]:
    """The samples of Europe, whose peer is not asked."""
    with EU.settings(), CaptureQueriesContext(connections["other"]) as queries:
        *_, scrape = scraping("default")
    assert len(queries) == 0
    return by_name(samples_of(scrape))


def test_how_old_is_told_as_soon_as_it_was_done() -> None:
    found = now()
    assert {LAG.name, PUBLISH_AGE.name}.isdisjoint(found)
    before = found[samples.FINDINGS.name][()]
    exchange(EU, US)
    EU.pass_time(30)
    EU.publish()
    found = now()
    assert 30 <= found[LAG.name][("us",)] < 60
    assert found[PUBLISH_AGE.name][("eu",)] < 30
    # Both were never done before.
    assert before - found[samples.FINDINGS.name][()] == 2


def test_a_site_without_regions_has_none() -> None:
    exchange(EU, US)
    with override_settings(COUNTERS_REGION=None):
        *_, scrape = scraping("default")
    found = by_name(samples_of(scrape))
    assert {LAG.name, PUBLISH_AGE.name}.isdisjoint(found)
