"""Lists as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from django_counters import clock
from django_counters.admin.readonly import lines, pages
from django_counters.cached.flush import flush
from django_counters.models import Counter, CounterAdjustment
from django_counters.testing import override_counters
from tests.admin.conftest import DEAD, make

EXPORT = reverse("admin:django_counters_counter_export")
LIST = reverse("admin:django_counters_counter_changelist")
ADJUSTMENTS = reverse("admin:django_counters_counteradjustment_export")
FORMULAS = ["=1+1", "+1", "-1", "@SUM(A1)", "\tx", "\rx", "\nx", " =1", "＝1", "－1"]  # noqa: RUF001


def text_of(response: Any) -> str:
    assert response.status_code == 200, response
    return b"".join(response).decode()


def table(client: Client, address: str = EXPORT, **query: str) -> list[dict[str, str]]:
    text = text_of(client.get(address, query))
    return list(csv.DictReader(io.StringIO(text, newline="")))


class TestCells:
    def test_a_text_stays_in_its_cell(self) -> None:
        row = ["a,b", 'a";=1', "a;=1", "a\n=1", 7]
        text = "".join(lines(["x"], [row]))
        (_, found) = csv.reader(io.StringIO(text, newline=""))
        assert found == ["a,b", 'a";=1', "a;=1", "a\n=1", "7"]
        assert '"a;=1"' in text


@pytest.mark.django_db(transaction=True)
class TestValues:
    @pytest.fixture(autouse=True)
    def counted(self, cached: str) -> Iterator[None]:
        with override_counters(orders={"STRATEGY": "ledger"}):
            Counter.objects.increment("views:a", 30)
            flush()
            Counter.objects.increment("views:a", 4)
            Counter.objects.increment("orders:eu", -17)
            yield

    def test_they_are_exact_or_say_that_they_are_not(self, viewer: Client) -> None:
        orders, views = table(viewer)
        assert datetime.fromisoformat(orders.pop("total_changed_at")) <= clock.now()
        assert orders == {
            "key": "orders:eu",
            "value": "-17",
            "total": "0",
            "pending": "-17",
            "strategy": "ledger",
            "consistency": "exact",
        }
        assert (views["key"], views["value"], views["total"], views["pending"]) == (
            *("views:a", "34"),
            *("30", "4"),
        )
        with override_counters(views=DEAD):
            orders, views = table(viewer)
        assert (views["value"], views["consistency"]) == ("30", "landed")
        assert (orders["value"], orders["consistency"]) == ("-17", "exact")


@pytest.mark.django_db
class TestTheExport:
    def test_it_is_a_file(self, viewer: Client) -> None:
        response = viewer.get(EXPORT)
        assert response["Content-Type"] == "text/csv; charset=utf-8"
        assert response["Content-Disposition"] == 'attachment; filename="counters.csv"'
        assert response["X-Content-Type-Options"] == "nosniff"
        assert response.streaming

    def test_it_is_what_the_list_is_filtered_to(self, viewer: Client) -> None:
        make("orders:eu", "orders:us", "likes:a", "orders;")
        with override_counters(orders={}, likes={"STRATEGY": "sharded"}):
            for query, expected in (
                ({}, ["likes:a", "orders:eu", "orders:us", "orders;"]),
                ({"namespace": "orders"}, ["orders:eu", "orders:us"]),
                ({"strategy": "sharded"}, ["likes:a"]),
                ({"q": "US"}, ["orders:us"]),
                ({"o": "-0", "p": "7", "namespace": "orders"}, ["orders:eu", "orders:us"]),
            ):
                assert [row["key"] for row in table(viewer, **query)] == expected
                page = viewer.get(LIST, query | {"p": "1"}).content.decode()
                link = page.split('">Export CSV')[0].rpartition('href="')[2].replace("&amp;", "&")
                assert link.startswith(f"{EXPORT}?")
                assert [row["key"] for row in table(viewer, link)] == expected

    def test_it_takes_no_more_queries_for_a_row_more(self, viewer: Client) -> None:
        found = {}
        for number in (1, 10, 1000, 1001):
            Counter.objects.all().delete()
            make(*(f"plain:{each}" for each in range(number)))
            with CaptureQueriesContext(connection) as queries:
                assert len(table(viewer)) == number
            found[number] = len(queries)
        # Two for each page: its rows and their values; and one to see that a full one was the last.
        assert found == {1: found[1], 10: found[1], 1000: found[1] + 1, 1001: found[1] + 2}

    def test_what_comes_and_goes_meanwhile_makes_none_come_twice(self) -> None:
        make("b", "d", "f", "h")
        found = []
        for page in pages(Counter.objects.all(), size=2):
            found += [counter.key for counter in page]
            if len(found) == 2:
                Counter.objects.filter(key="b").delete()
                make("a", "c", "e")
        assert found == ["b", "d", "e", "f", "h"]

    def test_adjustments(self, viewer: Client) -> None:
        CounterAdjustment._base_manager.bulk_create(
            [
                CounterAdjustment(
                    number=number,
                    key="likes:a",
                    before=10,
                    after=3,
                    delta=-7,
                    reason=reason,
                    actor_name="@eve",
                    created_at=clock.now(),
                    digest="0" * 64,
                )
                for number, reason in enumerate(FORMULAS, 1)
            ]
        )
        rows = table(viewer, ADJUSTMENTS)
        assert [row["number"] for row in rows] == [str(n + 1) for n in range(len(FORMULAS))]
        assert [row["reason"] for row in rows] == [f"'{reason}" for reason in FORMULAS]
        assert {(row["delta"], row["actor_name"], row["entry"]) for row in rows} == {
            ("-7", "'@eve", "")
        }
        assert set(rows[0]) == {field.name for field in CounterAdjustment._meta.fields}


@pytest.mark.postgresql
@pytest.mark.django_db
@pytest.mark.parametrize("address", [EXPORT, LIST])
def test_what_the_database_cannot_look_up_is_no_error_of_the_server(
    address: str, admin_client: Client
) -> None:
    answer = admin_client.get(address, {"key__regex": "("})
    assert (answer.status_code, answer["Location"]) == (302, f"{LIST}?e=1")
