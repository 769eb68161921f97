"""Adjustments and incidents in the admin: looked at, and nothing else."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.admin.models import LogEntry
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from django_counters import clock
from django_counters.models import CounterAdjustment, CounterIncident
from tests.admin.conftest import Login

EVIL = '"><img/src=x/onerror=alert(1)><script>alert(1)</script>'

pytestmark = pytest.mark.django_db


def address(model: str, page: str = "changelist", *args: object) -> str:
    return reverse(f"admin:django_counters_{model}_{page}", args=args)


def adjusted(number: int, **fields: Any) -> None:
    given = {"key": "likes:a", "before": 10, "after": 3, "delta": -7, "reason": "a robot"}
    given |= {"actor_name": "eve", "created_at": clock.now(), "digest": "0" * 64, **fields}
    CounterAdjustment._base_manager.bulk_create([CounterAdjustment(number=number, **given)])


def text(client: Client, *where: object, **query: str) -> str:
    response = client.get(address(*where), query)  # type: ignore[arg-type]
    assert response.status_code == 200, response
    return response.content.decode()


def numbers(page: str) -> list[str]:
    return re.findall(r'class="field-number"><a [^>]*>(\d+)<', page)


class TestAdjustments:
    @pytest.fixture(autouse=True)
    def adjustments(self) -> None:
        adjusted(1)
        adjusted(2, key="=evil/key", reason=EVIL, approver_name="bob", case="C-7")
        adjusted(3, field="shop.Product.stock", key="42", actor_name=EVIL, request_id="r-9")

    def test_the_list(self, viewer: Client) -> None:
        page = text(viewer, "counteradjustment")
        assert numbers(page) == ["3", "2", "1"]
        for expected in ("shop.Product.stock:42", "a robot", "bob", "-7", "=evil/key"):
            assert expected in page
        for dangerous in ("<img/src", "<script>alert"):
            assert dangerous not in page
        link = address("counter", "change", "_3Devil_2Fkey")
        assert f'href="{link}"' in page

    @pytest.mark.parametrize(
        ("query", "found"),
        [
            ({"q": "ROBOT"}, ["3", "1"]),
            ({"q": "C-7"}, ["2"]),
            ({"q": "bob"}, ["2"]),
            ({"q": "r-9"}, ["3"]),
            ({"q": "likes"}, ["1"]),
            ({"of": "names"}, ["2", "1"]),
            ({"of": "records"}, ["3"]),
            ({"approved": "yes"}, ["2"]),
            ({"approved": "no"}, ["3", "1"]),
            ({"field": "", "key": "likes:a"}, ["1"]),
        ],
    )
    def test_what_is_found(self, viewer: Client, query: dict[str, str], found: list[str]) -> None:
        assert numbers(text(viewer, "counteradjustment", **query)) == found

    def test_one_of_them(self, viewer: Client) -> None:
        page = text(viewer, "counteradjustment", "change", 2)
        for expected in ("=evil/key", "&lt;script&gt;", "bob", "C-7", "0" * 64):
            assert expected in page
        assert "<script>alert" not in page
        assert not re.search(r'<(input|select|textarea)[^>]* name="(?!csrf)', page)

    def test_the_list_takes_the_same_queries_for_more_rows(self, viewer: Client) -> None:
        def queries() -> int:
            with CaptureQueriesContext(connection) as found:
                text(viewer, "counteradjustment")
            return len(found)

        few = queries()
        for number in range(4, 30):
            adjusted(number)
        assert queries() == few


class TestIncidents:
    @pytest.fixture(autouse=True)
    def incident(self) -> CounterIncident:
        CounterIncident.objects.create(kind="lost", subject="redis://x", detail={})
        return CounterIncident.objects.create(
            kind="drift", subject=EVIL, detail={"found": 3, "expected": {"ü": EVIL}}
        )

    def test_the_list(self, viewer: Client) -> None:
        page = text(viewer, "counterincident")
        assert page.count('class="field-kind"') == 2
        assert "increments were lost by Redis" in page
        assert "<script>alert" not in page
        assert "redis://x" not in text(viewer, "counterincident", kind__exact="drift")
        assert EVIL[:8] not in text(viewer, "counterincident", q="redis")

    def test_the_overview_is_for_those_who_may_see_counters(
        self, viewer: Client, login: Login
    ) -> None:
        link = f'href="{reverse("admin:django_counters_overview")}">Overview'
        assert link in text(viewer, "counterincident")
        assert link not in text(login("view_counterincident"), "counterincident")

    def test_one_of_them(self, viewer: Client, incident: CounterIncident) -> None:
        page = text(viewer, "counterincident", "change", incident.pk)
        shown = re.search(r'<pre class="counters-detail">(.*?)</pre>', page, re.DOTALL)
        assert shown
        assert shown[1].startswith("{\n  &quot;expected&quot;: {\n    &quot;ü&quot;")
        assert "<script>alert" not in page


@pytest.mark.parametrize("model", ["counteradjustment", "counterincident"])
class TestNobodyChangesThem:
    @pytest.fixture
    def pk(self, model: str) -> str:
        adjusted(1)
        incident = CounterIncident.objects.create(kind="lost", subject="x")
        return "1" if model == "counteradjustment" else str(incident.pk)

    def rows(self) -> list[Any]:
        return [*CounterAdjustment._base_manager.values(), *CounterIncident.objects.values()]

    @pytest.mark.parametrize("page", ["changelist", "change", "delete", "add"])
    def test_whatever_is_sent(self, root: Client, model: str, pk: str, page: str) -> None:
        before = self.rows()
        where = address(model, page, *([pk] if page in ("change", "delete") else []))
        crafted = {"action": "delete_selected", "_selected_action": pk, "post": "yes"}
        crafted |= {"_save": "Save", "reason": "mine", "subject": "mine", "kind": "drift"}
        assert root.post(where, crafted).status_code in (
            (200, 302) if page == "changelist" else (403,)
        )
        assert self.rows() == before
        assert not LogEntry.objects.exists()

    def test_nothing_to_do_it_with_is_offered(self, root: Client, model: str, pk: str) -> None:
        for page in (text(root, model), text(root, model, "change", pk)):
            content = page[page.index('id="content"') :]
            assert not re.search(
                r'name="_save"|class="(addlink|deletelink)"|name="action"', content
            )

    def test_it_needs_no_inline_style_or_script(self, viewer: Client, model: str, pk: str) -> None:
        for page in (text(viewer, model), text(viewer, model, "change", pk)):
            assert not re.search(r"<style|<[a-z]+ [^>]*\b(style|on[a-z]+)=", page)
            assert not re.search(r"<script(?![^>]*(src=|application/json))", page)

    def test_who_may_not_view_does_not_see_them(
        self, nobody: Client, login: Login, model: str, pk: str
    ) -> None:
        for client in (nobody, login("view_counter", "adjust_counter")):
            assert client.get(address(model)).status_code == 403
            assert client.get(address(model, "change", pk)).status_code == 403


def test_the_inner_tables_have_no_page() -> None:
    ours = {m.__name__ for m in admin.site._registry if m._meta.app_label == "django_counters"}
    assert {"Counter", "CounterAdjustment", "CounterIncident"} <= ours
    assert ours <= {"Counter", "CounterAdjustment", "CounterIncident", "AdjustmentRequest"}
