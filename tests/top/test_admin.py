"""The places of a counter on its page."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from django.test import Client, override_settings

from django_counters import clock
from django_counters.models import Counter
from django_counters.testing import override_counters
from tests.admin.conftest import login, nobody, viewer
from tests.admin.reading import html_of, rows_of
from tests.admin.test_page import section, url_of

pytestmark = pytest.mark.django_db
NOW = datetime(2024, 5, 15, 12, 30, tzinfo=UTC)
DAY = timedelta(days=1)


@pytest.fixture(autouse=True)
def _now(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(clock, "utc", lambda: NOW)
    monkeypatch.setattr(clock, "now", lambda: NOW)
    with override_settings(TIME_ZONE="UTC"), override_counters(plain={"PER": ["day"]}):
        yield


def test_the_page_says_which_place_it_has(viewer: Client) -> None:
    with override_counters(hits={"TOP": ["day", "week"]}):
        Counter.objects.increment("hits:b", 5, at=NOW - DAY)
        Counter.objects.increment("hits:a", 3)
        Counter.objects.increment("hits:c", 1, at=NOW - DAY)
        found = [rows_of(section(html_of(viewer, url_of(f"hits:{key}")), "places")) for key in "ac"]
    assert found == [
        [["Period", "Place", "Value"], ["day", "1", "3"], ["week", "2", "3"]],
        [["Period", "Place", "Value"], ["day", "\N{EN DASH}", "0"], ["week", "3", "1"]],
    ]
    Counter.objects.increment("plain:a")
    assert "counters-places" not in html_of(viewer, url_of("plain:a"))
