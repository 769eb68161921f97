"""The page of a counter that is counted by period: its bars, their legend and their table."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from html import unescape
from typing import Any

import pytest
from django.contrib.admin.utils import quote
from django.test import Client, override_settings
from django.urls import reverse

from django_counters import clock
from django_counters.contrib.series.admin import TEXTURES
from django_counters.contrib.series.chart import MOST_VALUES, charted, periods_of
from django_counters.models import Counter
from django_counters.testing import override_counters
from tests.admin.conftest import EVIL, Login
from tests.admin.reading import Page, html_of, opened, rows_of, texts
from tests.admin.test_page import section, url_of

pytestmark = pytest.mark.django_db
NOW = datetime(2024, 5, 15, 12, 30, tzinfo=UTC)
DAY = timedelta(days=1)
KEY = "visits:a"
DECLARED: dict[str, dict[str, Any]] = {
    "visits": {"PER": ["hour", "day"], "TAGS": {"country": 50, "plan": 3}},
    "orders": {"STRATEGY": "ledger", "PER": ["hour", "day"], "TAGS": {"country": 5}},
    "minutes": {"PER": ["minute"]},
    "daily": {"PER": ["day"]},
    "weekly": {"PER": ["week", "month"]},
    "monthly": {"PER": ["month"]},
    "brief": {"PER": ["hour"], "KEEP": {"hour": 2}},
    "few": {"PER": ["day"], "TAGS": {"country": 1}},
}


@pytest.fixture(autouse=True)
def _now(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(clock, "utc", lambda: NOW)
    monkeypatch.setattr(clock, "now", lambda: NOW)
    with override_settings(TIME_ZONE="UTC"), override_counters(**DECLARED):
        yield


def count(
    amount: int, country: str | None = None, ago: timedelta = DAY * 0, key: str = KEY
) -> None:
    tags = {"country": country} if country else None
    Counter.objects.increment(key, amount, at=NOW - ago, tags=tags)


def page_of(client: Client, key: str = KEY, **query: str) -> str:
    return section(html_of(client, url_of(key), **query), "history")


def links(part: str, name: str) -> list[tuple[str, bool]]:
    """Query of each link of a navigation, and whether it is the present page."""
    found = re.search(rf'<nav aria-label="{name}">(.*?)</nav>', part, re.S)
    assert found, f"there is no navigation {name}"
    return [
        (unescape(query), bool(present))
        for query, present in re.findall(r'href="\?([^"]*)"( aria-current="page")?', found[1])
    ]


def drawn(part: str) -> dict[int, list[float]]:
    """The heights of the bars, by their texture."""
    found: dict[int, list[float]] = {}
    pattern = r'<rect x=[^>]* height="([^"]*)" fill="url\(#counters-texture-(\d+)'
    for height, texture in re.findall(pattern, part):
        found.setdefault(int(texture), []).append(float(height))
    return found


def legend(part: str) -> list[str]:
    found = re.search(r'<ul class="counters-legend".*?</ul>', part, re.S)
    return texts(found[0], "li") if found else []


class TestWhatIsDrawn:
    def test_bars_and_table_have_the_same_numbers(self, viewer: Client) -> None:
        count(5, ago=2 * DAY)
        count(10, "DE")
        part = page_of(viewer, by="day")
        rows = rows_of(part)
        assert rows[0] == ["Day", "Counted", "Value at the end"]
        assert rows[1:4] == [
            ["May 15, 2024", "10", "15"],
            ["May 14, 2024", "0", "5"],
            ["May 13, 2024", "5", "5"],
        ]
        assert len(rows) == 31
        small, large = drawn(part)[0]
        assert large == pytest.approx(2 * small, abs=0.02)
        assert legend(part) == []

    @pytest.mark.parametrize(
        ("by", "periods", "label"),
        [
            ("hour", 24, "05/15/2024 noon"),
            ("day", 30, "May 15, 2024"),
            ("week", 26, "May 13, 2024"),
            ("month", 12, "May 2024"),
        ],
    )
    def test_by_any_period(self, viewer: Client, by: str, periods: int, label: str) -> None:
        count(3)
        part = page_of(viewer, by=by)
        rows = rows_of(part)[1:]
        assert (len(rows), rows[0]) == (periods, [label, "3", "3"])
        assert sum(int(row[1]) for row in rows) == 3

    def test_by_the_values_of_a_tag(self, viewer: Client) -> None:
        for amount, country, ago in ((6, "DE", 0), (2, "DE", 1), (3, "FR", 1), (1, None, 0)):
            count(amount, country, ago * DAY)
        part = page_of(viewer, by="day", split="country")
        rows = rows_of(part)
        assert rows[0] == ["Day", "DE", "FR", "(none)", "Sum"]
        assert rows[1:3] == [
            ["May 15, 2024", "6", "0", "1", "7"],
            ["May 14, 2024", "2", "3", "0", "5"],
        ]
        assert legend(part) == ["DE 8", "FR 3", "(none) 1"]
        heights = drawn(part)
        assert [len(heights[texture]) for texture in (0, 1, 11)] == [2, 1, 1]
        assert heights[0][1] == pytest.approx(6 * heights[11][0], abs=0.05)

    def test_the_bars_of_a_period_stand_on_one_another(self, viewer: Client) -> None:
        for amount, country in ((6, "DE"), (3, "FR"), (1, None)):
            count(amount, country)
        part = page_of(viewer, by="day", split="country")
        found = re.findall(r'<rect x="([^"]*)" y="([^"]*)" width="[^"]*" height="([^"]*)"', part)
        assert len({x for x, _, _ in found}) == 1
        (ground,) = re.findall(r'class="counters-ground"[^>]* y1="([^"]*)"', part)
        below = float(ground)
        for _, top, height in found:
            assert float(top) + float(height) == pytest.approx(below, abs=0.02)
            below = float(top)

    def test_the_ten_largest_apart_and_the_rest_together(self, viewer: Client) -> None:
        for number in range(MOST_VALUES + 3):
            count(100 - number, f"C{number:02}")
        part = page_of(viewer, by="day", split="country")
        assert rows_of(part)[0][1:-1] == [f"C{n:02}" for n in range(MOST_VALUES)] + ["(other)"]
        assert legend(part)[-1] == f"(other) {90 + 89 + 88}"
        assert rows_of(part)[1][-1] == f"{sum(100 - n for n in range(MOST_VALUES + 3)):,}"

    def test_what_is_not_counted_apart_is_among_the_others(self, viewer: Client) -> None:
        for amount, country in ((1, "DE"), (7, "FR"), (5, "~x")):
            count(amount, country, key="few:a")
        assert legend(page_of(viewer, "few:a", split="country")) == ["DE 1", "(other) 12"]

    def test_no_two_values_differ_by_colour_alone(self, viewer: Client) -> None:
        assert len(set(TEXTURES)) == len(TEXTURES) == MOST_VALUES + 2
        for number in range(MOST_VALUES - 1):
            count(100 - number, f"C{number:02}")
        count(50)
        count(1, "rare")
        part = page_of(viewer, split="country")
        defined = re.findall(r'<pattern id="(counters-texture-\d+)"', part)
        used = re.findall(r"url\(#(counters-texture-\d+)\)", part)
        assert len(defined) == len(set(defined)) == MOST_VALUES + 1
        assert set(used) == set(defined)

    def test_what_was_taken_off_hangs_below_the_ground(self, viewer: Client) -> None:
        count(4)
        Counter.objects.decrement(KEY, 2, at=NOW - DAY)
        part = page_of(viewer, by="day")
        assert [row[1:] for row in rows_of(part)[1:3]] == [["4", "2"], ["-2", "-2"]]
        below, above = drawn(part)[0]
        assert above == pytest.approx(2 * below, abs=0.02)
        tops = re.findall(r'<rect x="[^"]*" y="([^"]*)"', part)
        assert tops[0] in part.split('class="counters-ground"')[1].split(">")[0]
        assert float(tops[1]) < float(tops[0])

    def test_no_point_of_a_number_follows_a_language(self, viewer: Client) -> None:
        count(1234)
        with override_settings(LANGUAGE_CODE="de", USE_THOUSAND_SEPARATOR=True):
            part = page_of(viewer, by="day")
        assert "1.234" in part
        for name in ("x", "y", "width", "height", "y1", "viewBox"):
            for given in re.findall(rf' {name}="([^"]*)"', part):
                assert re.fullmatch(r"-?[\d. ]+", given), (name, given)
                assert float(given.split()[-1]) <= 640


class TestWhatTheAddressAsksFor:
    @pytest.mark.parametrize(
        ("key", "periods"),
        [
            ("visits:a", ("hour", "day", "week", "month")),
            ("minutes:a", ("hour", "day", "week", "month")),
            ("daily:a", ("day", "week", "month")),
            ("weekly:a", ("week", "month")),
            ("monthly:a", ("month",)),
            ("none:a", ()),
        ],
    )
    def test_what_is_stored_can_be_asked_for(
        self, viewer: Client, key: str, periods: tuple[str, ...]
    ) -> None:
        assert periods_of(key) == periods
        Counter.objects.increment(key)
        if periods:
            found = links(page_of(viewer, key), "Periods")
            assert found == [(f"by={by}", by == periods[0]) for by in periods]
            for query, _ in found:
                assert rows_of(page_of(viewer, key, by=query.removeprefix("by=")))[1][1] == "1"

    def test_links_keep_what_else_is_asked_for(self, viewer: Client) -> None:
        count(1, "DE")
        part = page_of(viewer, by="week", split="country")
        assert ("by=day&split=country", False) in links(part, "Periods")
        assert ("by=week&split=country", True) in links(part, "Periods")
        assert links(part, "Split by") == [
            ("by=week", False),
            ("by=week&split=country", True),
            ("by=week&split=plan", False),
        ]

    def test_who_has_no_tags_is_offered_none(self, viewer: Client) -> None:
        count(1, key="daily:a")
        assert 'aria-label="Split by"' not in page_of(viewer, "daily:a", split="country")

    @pytest.mark.parametrize("by", ["", "year", "minute", "'", "hour\0"])
    @pytest.mark.parametrize("split", ["", "gone", "country\0", "<b>"])
    def test_what_cannot_be_told_falls_back(self, viewer: Client, by: str, split: str) -> None:
        count(1, "DE")
        part = page_of(viewer, by=by, split=split)
        assert ("by=hour", True) in links(part, "Periods")
        assert links(part, "Split by")[0] == ("by=hour", True)

    def test_what_is_not_kept_is_left_out(self, viewer: Client) -> None:
        count(3, key="brief:a")
        assert len(rows_of(page_of(viewer, "brief:a"))) == 25
        days = rows_of(page_of(viewer, "brief:a", by="day"))
        assert days[1][1:] == ["3", "3"]
        assert 2 <= len(days) <= 4
        assert "Nothing has been recorded yet." in page_of(viewer, "brief:a", by="month")

    def test_a_ledger_that_is_counted_by_period(self, viewer: Client) -> None:
        count(3, "DE", key="orders:a")
        assert legend(page_of(viewer, "orders:a", split="country")) == ["DE 3"]

    def test_a_row_that_is_no_key(self, viewer: Client) -> None:
        Counter.objects.create(key="visits:a b", value=5)
        assert "Nothing has been recorded yet." in page_of(viewer, "visits:a b", split="country")

    def test_nothing_counted_is_zeros(self, viewer: Client) -> None:
        Counter.objects.create(key=KEY)
        part = page_of(viewer, split="country")
        assert rows_of(part)[1][1:] == ["0", "0"]
        assert drawn(part) == {}


class TestForWhomever:
    def test_no_script_is_needed_and_no_value_is_markup(self, viewer: Client) -> None:
        count(1, EVIL[:30])
        page = opened(viewer, url_of(KEY), split="country")
        assert isinstance(page, Page)
        part = section(page.html, "history")
        assert "<script" not in part
        assert "<img/" not in part
        assert unescape(legend(part)[0]).startswith(EVIL[:30])

    def test_json_has_the_same_numbers(self, viewer: Client) -> None:
        count(2, "DE")
        count(1, ago=DAY)
        part = page_of(viewer, by="day", split="country")
        (link,) = re.findall(r'href="([^"]*)">As JSON', part)
        told = viewer.get(unescape(link)).json()
        assert (told["by"], told["split"], told["changes"][-2:]) == ("day", "country", [1, 2])
        assert [(row["kind"], row["value"]) for row in told["rows"]] == [
            ("value", "DE"),
            ("without", None),
        ]
        whole = viewer.get(url_of(KEY, "chart"), {"by": "day"}).json()
        assert (whole["values"][-1], whole["source"], len(whole["rows"])) == (3, "counted", 1)

    def test_who_may_not_see_the_counter_sees_no_numbers(self, login: Login) -> None:
        count(1, "DE")
        client = login()
        for name in ("change", "chart"):
            url = reverse(f"admin:django_counters_counter_{name}", args=[quote(KEY)])
            assert client.get(url, {"split": "country"}).status_code == 403

    def test_values_at_the_end_begin_with_what_was_there_before(self) -> None:
        Counter.objects.create(key=KEY, value=100)
        count(5)
        count(2, ago=DAY)
        found = charted(KEY, "day")
        assert found.values[-3:] == (100, 102, 107)
