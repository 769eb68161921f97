"""Counts over time of records: of one, of some, and of all."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils.functional import SimpleLazyObject

from django_counters import CounterField, clock
from django_counters.contrib import series
from django_counters.contrib.series import Series
from django_counters.errors import InvalidKey, UnsavedInstance, UnsupportedSeries
from tests.testapp.models import Post, Sensor, Shop, Site

pytestmark = pytest.mark.django_db
NOW = datetime(2024, 5, 3, 12, 30, tzinfo=UTC)


@pytest.fixture(autouse=True)
def _now(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "utc", lambda: NOW)


def sites(*by: int) -> list[Site]:
    made = [Site.objects.create() for _ in by]
    for site, one in zip(made, by, strict=True):
        site.visits.increment(one, at=NOW - timedelta(hours=one), tags={"country": f"c{one % 2}"})
    return made


def total(series: Series) -> int:
    return series.per("hour").last(24).total()


def test_a_record_that_is_lazy() -> None:
    """As ``request.user`` is."""
    one, _ = sites(1, 2)
    lazy: Any = SimpleLazyObject(lambda: one)
    assert [total(series.of(Site.visits, chosen)) for chosen in (lazy, [lazy])] == [1, 1]
    assert total(series.of(lazy.visits)) == 1


def test_one_record() -> None:
    one, two = sites(1, 2)
    points = series.of(one.visits).per("hour").last(3).list()
    assert [point.value for point in points] == [0, 1, 0]
    assert (total(series.of(one.visits)), total(series.of(two.visits))) == (1, 2)
    assert total(series.of(Site.visits.of(two.pk))) == 2
    assert total(series.of(Site.objects.defer("visits").get(pk=two.pk).visits)) == 2
    assert series.of(one.visits).by("country").total() == {"c1": 1}
    assert list(series.of(one.visits).per("day").each()) == [one.pk]


def test_all_records_and_some() -> None:
    one, two, three = sites(1, 2, 3)
    every = series.of(Site.visits)
    assert total(every) == 6
    assert every.by("country").total() == {"c1": 4, "c0": 2}
    assert total(series.of(Site.visits, [one, three])) == 4
    assert total(series.of(Site.visits, one)) == 1
    assert total(series.of(Site.visits, [])) == 0
    assert total(series.of(Site.visits, Site.objects.filter(pk__gt=one.pk))) == 5
    assert total(series.of(Site.visits, Site.objects.order_by("-pk")[:1])) == 3
    assert total(series.of(Site.visits, Site.objects.none())) == 0
    assert total(series.of(Site.visits, Site.objects.with_counts()).per("hour")) == 6
    assert two.pk


def test_each_record_by_its_key() -> None:
    one, two = sites(1, 2)
    never = Site.objects.create()
    every = series.of(Site.visits).per("day").last(1)

    def told(series: Series) -> dict[Any, int]:
        return {pk: points[0].value for pk, points in series.each().items()}

    assert told(every) == {one.pk: 1, two.pk: 2}
    some = series.of(Site.visits, [two, never]).per("day").last(1)
    assert told(some) == {two.pk: 2, never.pk: 0}
    others = series.of(Site.visits, Site.objects.exclude(pk=one.pk)).per("day").last(1)
    assert told(others) == {two.pk: 2, never.pk: 0}


def test_slots() -> None:
    site = Site.objects.create()
    site.downloads.increment(at=NOW)
    site.downloads.increment(2, at=NOW)
    assert series.of(site.downloads).per("day").last(1).total() == 3
    assert series.of(Site.downloads, Site.objects.all()).total() == 3


def test_keys_that_are_no_numbers() -> None:
    one, two = Sensor.objects.create(), Sensor.objects.create()
    for sensor in (one, one, two):
        sensor.ticks.increment(at=NOW)
    assert series.of(one.ticks).total() == 2
    every = series.of(Sensor.ticks).per("day").last(1)
    assert set(every.each()) == {one.pk, two.pk}
    assert all(isinstance(pk, uuid.UUID) for pk in every.each())
    first = series.of(Sensor.ticks, Sensor.objects.filter(pk=one.pk)).per("day").last(1)
    assert first.total() == 2
    assert list(first.each()) == [one.pk]


def test_children_have_the_counter_of_their_parent() -> None:
    shop = Shop.objects.create(code="x")
    shop.visits.increment(3, at=NOW)
    Site.objects.create().visits.increment(at=NOW)
    assert series.of(shop.visits).total() == 3
    assert (series.of(Shop.visits).total(), series.of(Site.visits).total()) == (3, 4)
    assert series.of(Shop.visits, Shop.objects.all()).total() == 3
    assert list(series.of(Shop.visits, Shop.objects.all()).per("day").last(1).each()) == ["x"]
    assert series.of(Site.visits, [shop]).total() == 3


@pytest.mark.django_db(databases=["default", "other"])
def test_each_database_has_its_own() -> None:
    site = Site.objects.using("other").create()
    site.visits.increment(4, at=NOW)
    assert series.of(site.visits).total() == 4
    assert series.of(Site.visits, Site.objects.using("other").all()).total() == 4
    assert series.of(Site.visits, [site]).total() == 4
    assert series.of(Site.visits).using("other").total() == 4
    assert series.of(Site.visits).total() == 0


def test_what_is_refused() -> None:
    (site,) = sites(1)
    wrong: list[Callable[[], object]] = [
        lambda: series.of(Site.visits, Post.objects.all()),
        lambda: series.of(Site.visits, [site, Post()]),
        lambda: series.of(Site.visits, [site.pk]),  # type: ignore[list-item]
        lambda: series.of(Site.visits, site.pk),  # type: ignore[arg-type]
    ]
    for call in wrong:
        with pytest.raises(InvalidKey, match=r"no record of testapp\.Site"):
            call()
    with pytest.raises(UnsavedInstance):
        total(series.of(Site().visits))
    with pytest.raises(UnsupportedSeries, match=r"testapp\.Post\.views is not counted by period"):
        total(series.of(Post.objects.create().views))
    assert isinstance(Post._meta.get_field("views"), CounterField)


def test_a_queryset_is_part_of_the_statement() -> None:
    sites(1, 2)
    every = series.of(Site.visits).per("hour").last(24)
    assert every.total() == 3
    some = series.of(Site.visits, Site.objects.all()).per("hour").last(24)
    for call in (every.list, some.list, some.by("country").list, some.total):
        with CaptureQueriesContext(connection) as queries:
            call()
        assert len(queries) == 1
