"""Adjustments and incidents in the admin: looked at, and nothing else."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from django_counters import clock
from django_counters.models import CounterAdjustment, CounterIncident
from tests.admin.conftest import EVIL
from tests.admin.reading import html_of

pytestmark = pytest.mark.django_db


def address(model: str, page: str = "changelist", *args: object) -> str:
    return reverse(f"admin:django_counters_{model}_{page}", args=args)


def adjusted(number: int, **fields: Any) -> None:
    given = {"key": "likes:a", "before": 10, "after": 3, "delta": -7, "reason": "a robot"}
    given |= {"actor_name": "eve", "created_at": clock.now(), "digest": "0" * 64, **fields}
    CounterAdjustment._base_manager.bulk_create([CounterAdjustment(number=number, **given)])


def text(client: Client, model: str, page: str = "changelist", *args: object, **query: str) -> str:
    return html_of(client, address(model, page, *args), **query)


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
        for expected in ("shop.Product.stock:42", "a robot", "bob", "-7", "10 →", "=evil/key"):
            assert expected in page
        for dangerous in ("<img/src", "<script>alert"):
            assert dangerous not in page
        link = address("counter", "change", "_3Devil_2Fkey")
        assert f'href="{link}"' in page

    def test_the_list_takes_the_same_queries_for_more_rows(self, viewer: Client) -> None:
        found = []
        for numbered in (range(4, 5), range(5, 30)):
            for number in numbered:
                adjusted(number)
            with CaptureQueriesContext(connection) as queries:
                text(viewer, "counteradjustment")
            found.append(len(queries))
        assert found[0] == found[1]

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

    def test_one_of_them(self, viewer: Client, incident: CounterIncident) -> None:
        page = text(viewer, "counterincident", "change", incident.pk)
        shown = re.search(r'<pre class="counters-detail">(.*?)</pre>', page, re.DOTALL)
        assert shown
        assert shown[1].startswith("{\n  &quot;expected&quot;: {\n    &quot;ü&quot;")
        assert "<script>alert" not in page
