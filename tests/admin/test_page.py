"""The page of one counter in the admin."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import timedelta
from html import unescape
from typing import Any

import pytest
from django.contrib.admin.utils import quote
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from django_counters.contrib.series.models import CounterSample
from django_counters.models import Counter
from django_counters.testing import override_counters
from django_counters.types import INT8
from tests.admin.conftest import DEAD, EVIL, Login
from tests.admin.reading import html_of, rows_of, text_of
from tests.settling import roll_up

LIST = reverse("admin:django_counters_counter_changelist")
ODD = [
    *(EVIL, "a/b", "a//b/", "../x", "_2F", "add", "overview", "a?b=c&d", "a#b", "100%", "%2F"),
    *("größe:日本語🙂", "'\";--", "a\\b", "{{key}}", "{%key%}", ":", "stock:</script>", "a+b", "é"),
]
DECLARED: dict[str, dict[str, Any]] = {
    "likes": {"STRATEGY": "sharded"},
    "orders": {"STRATEGY": "ledger"},
    "stock": {"FLOOR": 0, "CEILING": 5000},
    "hits": {"HISTORY": "1h"},
    "sales": {"HISTORY": "1d"},
}
VIEW = "view_counter"
DASH = "\N{EN DASH}"


@pytest.fixture(autouse=True)
def declared() -> Iterator[None]:
    with override_counters(**DECLARED):
        yield


def url_of(key: str, name: str = "change") -> str:
    return reverse(f"admin:django_counters_counter_{name}", args=[quote(key)])


def page_of(client: Client, key: str, **query: Any) -> str:
    return html_of(client, url_of(key), **query)


def section(page: str, name: str) -> str:
    """The section under a heading."""
    found = re.search(rf'<section[^>]*aria-labelledby="counters-{name}".*?</section>', page, re.S)
    assert found, f"there is no section {name}"
    return found[0]


def parts_of(page: str) -> dict[str, str]:
    return {row[0]: row[1] for row in rows_of(section(page, "parts"))[1:]}


def shown(page: str) -> str:
    """The number that stands large."""
    found = re.search(r'<p class="counters-exact">(.*?)</p>', page, re.S)
    assert found
    return text_of(found[1])


@pytest.mark.django_db
class TestValue:
    @pytest.mark.parametrize("value", INT8)
    def test_the_largest_numbers_are_exact(self, viewer: Client, value: int) -> None:
        Counter.objects.create(key="a", value=value)
        page = page_of(viewer, "a")
        assert shown(page) == f"{value:,}"
        assert f"{value:,}" in html_of(viewer, LIST)

    def test_a_row_that_is_no_key_is_shown(self, viewer: Client) -> None:
        Counter.objects.create(key="a b", value=5)
        page = page_of(viewer, "a b")
        assert shown(page) == "5"
        assert "cannot be told" in page


@pytest.mark.django_db(transaction=True)
class TestParts:
    def test_of_the_ledger(self, viewer: Client) -> None:
        Counter.objects.create(key="orders:a", value=100)
        Counter.objects.increment("orders:a", 7)
        roll_up()
        Counter.objects.decrement("orders:a", 2)
        page = page_of(viewer, "orders:a")
        assert shown(page) == "105"
        assert parts_of(page) == {"Total": "107", "Shards": "0", "Tail": "-2", "Value": "105"}
        assert "100 did not come through the ledger" in page
        entries = rows_of(section(page, "entries"))[1:]
        assert [row[1:4] for row in entries] == [
            ["-2", "increment", "not yet"],
            ["+7", "increment", "yes"],
        ]

    def test_without_redis_the_page_opens_and_says_so(self, viewer: Client) -> None:
        Counter.objects.create(key="views:a", value=3)
        with override_counters(views=DEAD):
            page = page_of(viewer, "views:a")
        assert shown(page) == "3 (landed)"
        assert "Redis cannot be reached" in page
        assert parts_of(page) == {"Total": "3", "Pending": "0", "Value": "3"}


@pytest.mark.django_db
class TestHistory:
    def sample(self, key: str, hours: int, value: int) -> None:
        moment = timezone.now().replace(minute=0, second=0, microsecond=0)
        CounterSample.objects.create(key=key, moment=moment - timedelta(hours=hours), value=value)

    def test_the_table_and_the_chart_have_the_same_numbers(self, viewer: Client) -> None:
        Counter.objects.create(key="hits:a")
        for hours, value in ((30, 5), (3, 15), (1, 12)):
            self.sample("hits:a", hours, value)
        part = section(page_of(viewer, "hits:a"), "history")
        chart = viewer.get(url_of("hits:a", "chart")).json()
        assert chart["source"] == "recorded"
        assert "From recorded totals" in part
        assert chart["values"][-5:] == [5, 15, 15, 12, 12]
        assert chart["changes"][-5:] == [0, 10, 0, -3, 0]
        rows = rows_of(part)
        assert rows[0] == ["Hour", "Counted", "Value at the end"]
        assert [row[1:] for row in rows[1:5]] == [
            ["0", "12"],
            ["-3", "12"],
            ["0", "15"],
            ["10", "15"],
        ]
        assert [row[0] for row in rows[1:]] == chart["labels"][::-1]
        assert len(rows) == 25
        (link,) = re.findall(r'href="([^"]*by=hour)">As JSON', part)
        assert viewer.get(unescape(link)).json() == chart

    def test_what_was_recorded_once_is_not_known_yet(self, viewer: Client) -> None:
        Counter.objects.create(key="hits:a")
        assert "Nothing has been recorded yet." in page_of(viewer, "hits:a")
        self.sample("hits:a", 0, 5)
        assert "Nothing has been recorded yet." in page_of(viewer, "hits:a")

    def test_any_key_of_a_ledger_has_its_bars(self, viewer: Client) -> None:
        key = "orders:_3C</script><script>alert(1)</script>"
        Counter.objects.increment(key)
        page = page_of(viewer, key)
        assert "<script>alert" not in page
        assert rows_of(section(page, "history"))[1][1:] == ["1", "1"]


@pytest.mark.django_db
class TestAdjustments:
    def test_the_last_ones_the_latest_first(self, viewer: Client) -> None:
        for number in range(22):
            Counter.objects.adjust(
                "stock:a", to=number * 10 + 1, reason=f"<b>no {number}", actor="an<i>"
            )
        Counter.objects.adjust("stock:b", to=1, reason="of another", actor="ann")
        rows = rows_of(section(page_of(viewer, "stock:a"), "adjustments"))[1:]
        assert len(rows) == 20
        assert [row[2:] for row in rows][:1] == [
            ["201", "211", "+10", "&lt;b&gt;no 21", "an&lt;i&gt;", DASH]
        ]
        assert [row[3] for row in rows] == [str(number * 10 + 1) for number in range(21, 1, -1)]

    def test_only_who_may_see_adjustments_reads_them(self, login: Login, viewer: Client) -> None:
        Counter.objects.adjust("stock:a", to=1, reason="of one alone", actor="ann")
        for client, told in ((viewer, True), (login(VIEW), False)):
            page = page_of(client, "stock:a")
            assert ("of one alone" in page, 'id="counters-adjustments"' in page) == (told, told)

    def test_the_form_is_for_who_may_adjust(self, login: Login, viewer: Client) -> None:
        Counter.objects.increment(EVIL)
        target = reverse("admin:django_counters_adjust")
        assert target not in page_of(viewer, EVIL)
        client = login(VIEW, "adjust_counter")
        (found,) = re.findall(rf'href="({target}[^"]*)"', page_of(client, EVIL))
        assert client.get(found.replace("&amp;", "&")).status_code == 200


@pytest.mark.django_db
class TestWho:
    @pytest.mark.parametrize("key", ["gone", "a\0b", "x" * 300])
    def test_what_is_not_there_is_said_to_be_missing(self, viewer: Client, key: str) -> None:
        response = viewer.get(url_of(key))
        assert (response.status_code, response["Location"]) == (302, reverse("admin:index"))
        assert viewer.get(url_of(key, "chart")).status_code == 404


@pytest.mark.django_db
class TestMarkup:
    @pytest.mark.parametrize("key", ODD)
    def test_any_key_has_a_page(self, viewer: Client, key: str) -> None:
        Counter.objects.increment(key, 41)
        page = page_of(viewer, key)
        assert shown(page) == "41"
        assert "<img/" not in page
        assert "<script>alert" not in page
        assert f'href="{url_of(key)}' in unescape(viewer.get(LIST).content.decode())
        assert viewer.get(url_of(key, "chart")).json()["key"] == key

    def test_a_constant_number_of_queries(self, viewer: Client) -> None:
        def queries(entries: int) -> int:
            for _ in range(entries):
                Counter.objects.increment("orders:a")
            with CaptureQueriesContext(connection) as found:
                page_of(viewer, "orders:a")
            return len(found)

        assert queries(1) == queries(30)
        # One of them asks which sealed partitions needn't be read.
        assert queries(0) <= 13


@pytest.mark.django_db
def test_its_quotas_are_shown(viewer: Client) -> None:
    with override_counters(calls={"CEILING": {"day": 500, "month": 10_000}}):
        Counter.objects.increment("calls:acme")
        rows = rows_of(section(page_of(viewer, "calls:acme"), "value"))
    assert ["Quota, day", "500"] in rows
    assert ["Quota, month", "10,000"] in rows
