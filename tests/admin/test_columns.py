"""Lists of a project's own models: filtered and sorted by a counter, with a line of its days."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.contrib import admin
from django.db import connection, models
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import path, reverse

from django_counters import clock
from django_counters.admin import CounterFieldsAdmin, CounterFilter
from django_counters.contrib.series.admin import Sparkline
from django_counters.models import CounterMeasure
from django_counters.registry import registry
from tests.testapp.models import Post, Site, Tune

pytestmark = [pytest.mark.django_db, pytest.mark.urls(__name__)]
site = admin.AdminSite(name="columns")
DRAWN = re.compile(r'<svg class="counters-sparkline".*?</svg>', re.S)


class SiteAdmin(CounterFieldsAdmin):
    list_display = ("id", "visits", Sparkline("visits", days=7))
    list_filter = (("visits", CounterFilter),)


site.register(Site, SiteAdmin)
urlpatterns = [path("columns/", site.urls)]


def listed(client: Client, **query: Any) -> Any:
    answer = client.get(reverse("columns:testapp_site_changelist"), query)
    assert answer.status_code == 200
    return answer


def visits(answer: Any) -> list[int]:
    return [int(record.visits) for record in answer.context["cl"].result_list]


def test_it_is_filtered_by_size_and_sorted(root: Client) -> None:
    numbers = (-3, 0, 1, 9, 10, 999, 1000, 999_999, 1_000_000)
    Site.objects.bulk_create([Site(visits=number) for number in numbers])
    assert visits(listed(root, o="2")) == sorted(numbers)
    assert visits(listed(root, o="-2")) == sorted(numbers, reverse=True)
    (filtering,) = listed(root).context["cl"].filter_specs
    choices = list(filtering.choices(listed(root).context["cl"]))
    found = {}
    for choice in choices:
        page = root.get(reverse("columns:testapp_site_changelist") + choice["query_string"])
        (again,) = page.context["cl"].filter_specs
        selected = [one for one in again.choices(page.context["cl"]) if one["selected"]]
        assert [one["display"] for one in selected] == [choice["display"]]
        found[choice["display"]] = sorted(visits(page))
    ranges = dict(list(found.items())[1:])
    assert found["All"] == sorted(numbers)
    # Each record is in one range.
    assert sorted(one for some in ranges.values() for one in some) == sorted(numbers)
    assert (ranges["< 0"], ranges["0"]) == ([-3], [0])
    assert ranges["1 \N{EN DASH} 9"] == [1, 9]
    assert ranges["100 \N{EN DASH} 999"] == [999]
    assert ranges["≥ 1,000,000"] == [1_000_000]


def test_a_line_of_each_record_takes_one_query(root: Client) -> None:
    busy, idle = Site.objects.create(), Site.objects.create()
    busy.visits.increment(1234)
    with CaptureQueriesContext(connection) as two:
        html = listed(root).content.decode()
    lines = dict(zip(("idle", "busy"), DRAWN.findall(html), strict=True))
    assert [int(record.pk) for record in listed(root).context["cl"].result_list] == [
        idle.pk,
        busy.pk,
    ]
    assert "visits, last 7 days: 1234" in lines["busy"]
    assert "visits, last 7 days: 0" in lines["idle"]
    assert len(re.findall(r"[\d.]+,[\d.]+", lines["busy"])) == 7
    # The last day is the highest.
    assert re.search(r' 96\.0,2\.0"', lines["busy"])
    assert "django_counters/sparkline.css" in html
    Site.objects.bulk_create([Site() for _ in range(20)])
    with CaptureQueriesContext(connection) as many:
        listed(root)
    assert len(many) == len(two)


@pytest.fixture
def measures() -> Iterator[Any]:
    """The rows that say since when fields are counted by day."""
    yield CounterMeasure.objects
    registry.forget_strategies()


@pytest.mark.parametrize(("ago", "days"), [(timedelta(days=3, hours=5), 3), (timedelta(0), 0)])
def test_a_line_begins_with_a_day_that_is_kept(
    ago: timedelta, days: int, root: Client, measures: Any
) -> None:
    Site.objects.create().visits.increment(5)
    since = (clock.utc() - ago).isoformat()
    measures.update(periods={"hour": since, "day": since})
    registry.forget_strategies()
    lines = DRAWN.findall(listed(root).content.decode())
    assert ["visits, last 7 days: 5" in line for line in lines] == [True] * bool(days)
    assert [len(re.findall(r"[\d.]+,[\d.]+", line)) for line in lines] == [days] * bool(days)


def test_an_empty_list(root: Client) -> None:
    assert visits(listed(root)) == []


@pytest.mark.parametrize(
    ("model", "field", "wrong"),
    [
        (Site, "visits", None),
        (Tune, "hearts", None),  # hours make up a day
        (Post, "views", "needs a field that is counted by day."),
        (Site, "id", "names no counter field of the model."),
        (Site, "visit", "names no counter field of the model."),
    ],
)
def test_a_field_that_is_not_counted_by_day_is_reported(
    model: type[models.Model], field: str, wrong: str | None
) -> None:
    lists = type("Lists", (CounterFieldsAdmin,), {"list_display": ("id", Sparkline(field))})
    found = [(one.id, one.msg, one.obj) for one in lists(model, site).check()]
    message = f"{model._meta.label}: Sparkline({field!r}) {wrong}"
    assert found == ([("counters.E045", message, lists)] if wrong else [])
