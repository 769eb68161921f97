"""The page of a counter that counts distinct actors."""

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
DECLARED = {
    "visits": {"PER": ["hour", "day"], "UNIQUE": ["hour", "day"]},
    "only": {"UNIQUE": ["day"]},
    "plain": {"PER": ["day"]},
}


@pytest.fixture(autouse=True)
def _now(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(clock, "utc", lambda: NOW)
    monkeypatch.setattr(clock, "now", lambda: NOW)
    with override_settings(TIME_ZONE="UTC"), override_counters(**DECLARED):
        yield


def people_of(client: Client, key: str, **query: str) -> str:
    return section(html_of(client, url_of(key), **query), "people")


@pytest.mark.parametrize("key", ["visits:a", "only:a"])
def test_who_comes_again_is_one(viewer: Client, key: str) -> None:
    for who, ago in ((1, 1), (2, 1), (2, 0), (3, 0), (4, 0), (4, 0)):
        Counter.objects.increment(key, who=who, at=NOW - ago * DAY)
    part = people_of(viewer, key, by="day")
    head, *rows = rows_of(part)
    assert "4 in all of these periods together." in part
    assert head == ["Day", "Different people"]
    assert [row[-1] for row in rows] == ["3", "2", *["0"] * 28]


def test_hours_where_they_are_known(viewer: Client) -> None:
    for key in ("visits:a", "only:a"):
        Counter.objects.increment(key, who=1)
    found = [len(rows_of(people_of(viewer, key, by="hour"))) for key in ("visits:a", "only:a")]
    assert found == [1 + 24, 1 + 30]


def test_an_estimate_says_so(viewer: Client) -> None:
    with Counter.objects.collect():
        for who in range(600):
            Counter.objects.increment("visits:a", who=who)
    part = people_of(viewer, "visits:a", by="day")
    assert "an estimate with a standard error of 0.81 %" in part
    assert "About " in part
    _, today, yesterday, *_ = rows_of(part)
    assert (today[-1].startswith("about "), yesterday[-1]) == (True, "0")


def test_not_where_nobody_is_counted(viewer: Client) -> None:
    Counter.objects.increment("plain:a")
    assert "counters-people" not in html_of(viewer, url_of("plain:a"))
