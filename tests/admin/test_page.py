"""The page of one counter in the admin."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import timedelta
from html import unescape
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.admin.models import LogEntry
from django.contrib.admin.utils import quote
from django.core.exceptions import PermissionDenied
from django.db import connection
from django.test import Client, RequestFactory, override_settings
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone, translation

from django_counters.admin import CounterAdmin
from django_counters.models import Counter, CounterAdjustment, CounterSample
from django_counters.testing import override_counters
from django_counters.types import INT8
from django_counters.upkeep.flush import flush
from tests.admin.conftest import Login
from tests.settling import roll_up

LIST = reverse("admin:django_counters_counter_changelist")
EVIL = '"><img/src=x/onerror=alert(1)><script>alert(1)</script>'
ODD = [
    *(EVIL, "a/b", "a//b/", "../x", "_2F", "add", "overview", "a?b=c&d", "a#b", "100%", "%2F"),
    *("größe:日本語🙂", "'\";--", "a\\b", "{{key}}", "{%key%}", ":", "stock:</script>", "a+b", "é"),
]
DEAD: dict[str, Any] = {"STRATEGY": "cached", "CACHE": "redis://127.0.0.1:1/0"}
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
    response = client.get(url_of(key), query)
    assert response.status_code == 200, response
    return response.content.decode()


def text_of(html: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", html))


def section(page: str, name: str) -> str:
    """The section under a heading."""
    found = re.search(rf'<section[^>]*aria-labelledby="counters-{name}".*?</section>', page, re.S)
    assert found, f"there is no section {name}"
    return found[0]


def rows_of(html: str) -> list[list[str]]:
    """The text of the cells of each row."""
    rows = re.findall(r"<tr\b.*?</tr>", html, re.S)
    return [
        [text_of(cell).strip() for cell in re.findall(r"<t[hd][^>]*>.*?</t[hd]>", row, re.S)]
        for row in rows
    ]


def parts_of(page: str) -> dict[str, str]:
    return {row[0]: row[1] for row in rows_of(section(page, "parts"))[1:]}


def shown(page: str) -> str:
    """The number that stands large."""
    found = re.search(r'<p class="counters-exact">(.*?)</p>', page, re.S)
    assert found
    return text_of(found[1]).strip()


@pytest.mark.django_db
class TestValue:
    def test_what_is_declared_stands_beside_it(self, viewer: Client) -> None:
        Counter.objects.increment("stock:a", 1234)
        page = page_of(viewer, "stock:a")
        assert shown(page) == "1234"
        declared = dict(row[:2] for row in rows_of(section(page, "value")))
        assert declared.pop("Last change of the total")
        assert declared == {
            "Namespace": "stock",
            "Strategy": "exact",
            "Floor": "0",
            "Ceiling": "5000",
        }

    def test_what_is_not_declared_is_a_dash(self, viewer: Client) -> None:
        Counter.objects.increment("plain")
        declared = dict(row[:2] for row in rows_of(section(page_of(viewer, "plain"), "value")))
        assert [declared[name] for name in ("Namespace", "Floor", "Ceiling")] == [DASH] * 3

    def test_numbers_are_written_as_in_the_language(self, viewer: Client) -> None:
        Counter.objects.increment("stock:a", 1234)
        with override_settings(USE_THOUSAND_SEPARATOR=True), translation.override("de"):
            page = page_of(viewer, "stock:a")
        assert shown(page) == "1.234"

    @pytest.mark.parametrize("value", INT8)
    def test_the_largest_numbers_are_exact(self, viewer: Client, value: int) -> None:
        Counter.objects.create(key="a", value=value)
        assert shown(page_of(viewer, "a")) == str(value)

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

    def test_of_shards(self, viewer: Client) -> None:
        Counter.objects.create(key="likes:a", value=3)
        Counter.objects.increment("likes:a", 4)
        page = page_of(viewer, "likes:a")
        assert parts_of(page) == {"Total": "3", "Shards": "4", "Tail": "0", "Value": "7"}
        assert "counters-entries" not in page

    @pytest.mark.usefixtures("cached")
    def test_of_redis(self, viewer: Client) -> None:
        Counter.objects.increment("views:a", 3)
        flush()
        Counter.objects.increment("views:a", 4)
        page = page_of(viewer, "views:a")
        assert shown(page) == "7"
        assert (parts_of(page)["Total"], parts_of(page)["Redis"]) == ("3", "4")

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

    def chart(self, page: str) -> dict[str, Any]:
        (found,) = re.findall(
            r'<script id="counters-chart-data" type="application/json">(.*?)</script>', page, re.S
        )
        data: dict[str, Any] = json.loads(found)
        return data

    def test_the_table_and_the_chart_have_the_same_numbers(self, viewer: Client) -> None:
        Counter.objects.create(key="hits:a")
        for hours, value in ((30, 5), (3, 15), (1, 12)):
            self.sample("hits:a", hours, value)
        page = page_of(viewer, "hits:a")
        chart = self.chart(page)
        assert chart["source"] == "recorded"
        assert chart["values"][-5:] == [5, 15, 15, 12, 12]
        assert chart["changes"][-5:] == [0, 10, 0, -3, 0]
        rows = rows_of(section(page, "history"))
        assert rows[0] == ["Hour", "Value at the end", "Change"]
        assert [row[1:] for row in rows[1:4]] == [["12", "0"], ["12", "-3"], ["15", "0"]]
        assert rows[4][1:] == ["15", "+10"]
        assert [row[0] for row in rows[1:]] == chart["labels"][::-1]
        assert len(rows) == 26
        assert viewer.get(url_of("hits:a", "chart")).json() == chart

    def test_hours_and_days_are_links(self, viewer: Client) -> None:
        Counter.objects.increment("orders:a", 5)
        for by, name, number in (("hour", "Hours", 25), ("day", "Days", 31)):
            page = page_of(viewer, "orders:a", by=by)
            assert f'<a href="?by={by}" aria-current="page">{name}</a>' in page
            assert len(re.findall(r'<a href="\?by=', page)) == 2
            assert len(self.chart(page)["values"]) == number
            assert "From the entries of the ledger" in page
            assert viewer.get(url_of("orders:a", "chart"), {"by": by}).json()["by"] == by

    def test_what_is_recorded_by_day_has_no_hours(self, viewer: Client) -> None:
        Counter.objects.create(key="sales:a")
        self.sample("sales:a", 0, 5)
        page = page_of(viewer, "sales:a")
        assert 'href="?by=day" aria-current' in page
        assert 'href="?by=hour"' not in page

    @pytest.mark.parametrize("by", ["", "minute", "<script>", "HOUR"])
    def test_other_periods_are_hours(self, viewer: Client, by: str) -> None:
        Counter.objects.increment("orders:a")
        assert self.chart(page_of(viewer, "orders:a", by=by))["by"] == "hour"

    def test_nothing_is_said_to_be_nothing(self, viewer: Client) -> None:
        Counter.objects.increment_many({"plain": 1, "hits:a": 1})
        page = page_of(viewer, "hits:a")
        assert "Nothing has been recorded yet" in page
        assert "chart.js" not in page
        assert "Nothing is recorded of this counter" in page_of(viewer, "plain")

    def test_a_closing_tag_in_a_key_stays_within_the_numbers(self, viewer: Client) -> None:
        key = "orders:_3C</script><script>alert(1)</script>"
        Counter.objects.increment(key)
        page = page_of(viewer, key)
        assert self.chart(page)["key"] == key
        assert "<script>alert" not in page
        (link,) = re.findall(r'href="([^"]*by=hour)">As JSON', page)
        assert viewer.get(unescape(link)).json() == self.chart(page)


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

    def test_where_all_are_is_for_who_may_see_them(self, login: Login, viewer: Client) -> None:
        Counter.objects.increment("stock:a")
        target = reverse("admin:django_counters_counteradjustment_changelist") + "?q=stock%3Aa"
        assert f'href="{target}"' in page_of(viewer, "stock:a")
        assert target not in page_of(login(VIEW), "stock:a")
        assert viewer.get(target).status_code == 200

    def test_the_form_is_for_who_may_adjust(self, login: Login, viewer: Client) -> None:
        Counter.objects.increment(EVIL)
        target = reverse("admin:django_counters_adjust")
        assert target not in page_of(viewer, EVIL)
        client = login(VIEW, "adjust_counter")
        (found,) = re.findall(rf'href="({target}[^"]*)"', page_of(client, EVIL))
        assert client.get(found.replace("&amp;", "&")).status_code == 200


@pytest.mark.django_db
class TestWho:
    def test_only_who_may_view(self, login: Login, nobody: Client, viewer: Client) -> None:
        Counter.objects.increment("hits:a")
        for name in ("change", "chart"):
            url = url_of("hits:a", name)
            assert "/login/" in Client().get(url)["Location"]
            assert nobody.get(url).status_code == 403
            assert login("adjust_counter", "view_counteradjustment").get(url).status_code == 403
            assert viewer.get(url).status_code == 200

    def test_nothing_can_be_sent(self, root: Client, nobody: Client) -> None:
        Counter.objects.increment("stock:a", 5)
        sent = {"key": "stock:b", "value": 9, "_save": "Save", "_saveasnew": "1"}
        for name in ("change", "chart"):
            url = url_of("stock:a", name)
            for method in ("post", "put", "patch", "delete"):
                for client in (root, nobody):
                    assert getattr(client, method)(url, sent).status_code in (403, 405)
            assert Client().post(url, sent).status_code == 302
        assert list(Counter.objects.values_list("key", "value")) == [("stock:a", 5)]
        assert not LogEntry.objects.exists()
        assert not CounterAdjustment.objects.exists()

    def test_a_project_can_narrow_down_what_is_seen(self, login: Login, rf: RequestFactory) -> None:
        class Narrow(CounterAdmin):
            def get_queryset(self, request: Any) -> Any:
                return super().get_queryset(request).filter(key__startswith="stock:")

            def has_view_permission(self, request: Any, obj: Any = None) -> bool:
                return obj is None or obj.key != "stock:secret"

        Counter.objects.increment_many({"stock:a": 1, "hits:a": 1, "stock:secret": 1})
        site = admin.AdminSite("narrow")
        narrow: Any = Narrow(Counter, site)
        request: Any = rf.get("/")
        request.user = login(VIEW).get(LIST).wsgi_request.user
        assert narrow._permitted(request, quote("stock:a")).value == 1
        assert narrow._permitted(request, quote("hits:a")) is None
        with pytest.raises(PermissionDenied):
            narrow._permitted(request, quote("stock:secret"))

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
        assert f'href="{url_of(key)}' in unescape(viewer.get(LIST).content.decode())
        assert viewer.get(url_of(key, "chart")).json()["key"] == key

    def test_nothing_of_a_key_is_markup(self, viewer: Client) -> None:
        Counter.objects.increment(EVIL)
        page = page_of(viewer, EVIL)
        assert "<img" not in page
        assert "<script>alert" not in page
        assert "&lt;script&gt;alert(1)" in page

    def test_nothing_is_inline(self, viewer: Client) -> None:
        Counter.objects.increment("orders:a")
        Counter.objects.adjust("orders:a", to=9, reason="a", actor="ann")
        page = page_of(viewer, "orders:a")
        scripts = re.findall(r"<script\b[^>]*>", page)
        assert all('src="' in tag or 'type="application/json"' in tag for tag in scripts)
        assert re.findall(r"<[^>]*\s(?:style|on\w+)=", page) == []
        assert "<style" not in page
        assert re.findall(r'(?:src|href)="(?:https?:)?//', page) == []

    def test_tables_have_captions_and_headings_are_in_order(self, viewer: Client) -> None:
        Counter.objects.increment("orders:a")
        Counter.objects.adjust("orders:a", to=9, reason="a", actor="ann")
        page = page_of(viewer, "orders:a").partition("<main")[2]
        assert page.count("<table") == page.count("<caption") == 5
        levels = re.findall(r"<h([1-6])", page)
        assert levels == ["1", *"22222"]
        assert len(re.findall(r'id="([^"]+)"', page)) == len(set(re.findall(r'id="([^"]+)"', page)))
        assert re.findall(r"<th(?![^>]*scope)(?!ead)[^>]*>", page) == []
        assert 'role="img"' in page

    def test_the_way_back(self, viewer: Client) -> None:
        Counter.objects.increment("stock:a")
        page = page_of(viewer, "stock:a")
        assert f'<a href="{LIST}">Counters</a>' in page
        assert "<h1>stock:a</h1>" in page

    def test_a_constant_number_of_queries(self, viewer: Client) -> None:
        def queries(entries: int) -> int:
            for _ in range(entries):
                Counter.objects.increment("orders:a")
            with CaptureQueriesContext(connection) as found:
                page_of(viewer, "orders:a")
            return len(found)

        assert queries(1) == queries(30)
        assert queries(0) <= 12
