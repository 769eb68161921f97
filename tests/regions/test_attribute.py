"""Records that are counted in several regions: each has a named counter, and no column."""

from __future__ import annotations

import asyncio
from typing import Any, assert_type
from uuid import uuid4

import pytest
from asgiref.sync import sync_to_async
from django.core.checks import run_checks
from django.db import connections, models
from django.template import Context, Template
from django.test import override_settings
from django.test.utils import isolate_apps

from django_counters import (
    clock,
)
from django_counters.contrib.regions import RegionalCounter, atransfer, transfer
from django_counters.contrib.regions.checks import check_attributes
from django_counters.contrib.regions.errors import UnsupportedRegions
from django_counters.contrib.regions.reading import CounterOverRegions, attribute_problems
from django_counters.errors import InsufficientCount, InvalidKey, UnsavedInstance
from django_counters.models import Counter
from django_counters.testing import override_counters
from django_counters.tokens import mint
from tests.regions.regions import EU, US, _regional, exchange  # noqa: F401 - a fixture
from tests.testapp.models import Song


class Named(models.Model):
    """The same record in all regions, by its primary key."""

    id = models.UUIDField(primary_key=True, default=uuid4)
    likes = RegionalCounter("likes")
    seats = RegionalCounter("seats")

    class Meta:
        abstract = True


@isolate_apps("tests.testapp")
def concert() -> type[Any]:
    """A model that is in no database: nothing here needs its table."""

    class Concert(Named):
        class Meta:
            app_label = "testapp"

    return Concert


@pytest.mark.django_db(databases=["default", "other"])
class TestCounting:
    def test_in_two_regions(self) -> None:
        one = concert()()
        with EU.settings():
            assert one.likes.increment(5, using="default") == 5
            assert one.likes.decrement(using="default") == 4
        with US.settings():
            assert one.likes.increment(2, using="other") == 2
        exchange(EU, US)
        with EU.settings():
            assert one.likes.value() == 6
            assert (one.likes.value(region="us"), one.likes.value(region="eu")) == (2, 4)
            assert Template("{{ one.likes.value }}").render(Context({"one": one})) == "6"
        assert EU.value(f"likes:{one.pk}") == 6

    def test_a_token_counts_once(self) -> None:
        one, token = concert()(), mint(clock.utc())
        with EU.settings():
            assert [int(one.likes.increment(5, token=token)) for _ in range(2)] == [5, 5]
            assert one.likes.value() == 5

    def test_stock(self) -> None:
        one = concert()()
        exchange(EU, US)
        with EU.settings():
            one.seats.increment(10)
            assert transfer(one.seats, 4, to="us") == 6
            with pytest.raises(InsufficientCount):
                one.seats.decrement(7)
        exchange(EU, US)
        with US.settings():
            assert one.seats.decrement(4, using="other") == 0
            assert one.seats.value(using="other") == 6

    def test_many_records_in_one_query(self, django_assert_num_queries: Any) -> None:
        model = concert()
        records = [model() for _ in range(3)]
        with EU.settings():
            records[0].likes.increment(3)
            records[1].likes.increment()
            with django_assert_num_queries(1):
                found = model.likes.values_of(records)
            assert [found[record] for record in records] == [3, 1, 0]
            with pytest.raises(UnsupportedRegions):
                model.likes.values_of(records, region="mars")

    def test_a_record_that_was_not_loaded(self) -> None:
        """Its key is that of the record, however it is written."""
        model, key = concert(), uuid4()
        for written in (str(key), key.hex, key.hex.upper()):
            assert model(pk=written).likes.key == model(pk=key).likes.key == f"likes:{key}"
        with pytest.raises(InvalidKey):
            model(pk="none").likes.increment()

    def test_a_record_without_a_key(self) -> None:
        with pytest.raises(UnsavedInstance):
            concert()(pk=None).likes.increment()

    def test_its_key_is_for_what_has_no_twin(self) -> None:
        one = concert()()
        with EU.settings():
            one.likes.increment(5)
            Counter.objects.adjust(one.likes.key, to=3, reason="bots", actor="test")
            assert one.likes.value() == 3

    def test_types(self) -> None:
        assert_type(Named.likes, RegionalCounter)
        assert isinstance(concert()().likes, CounterOverRegions)


@pytest.mark.django_db(transaction=True, databases=["default", "other"])
def test_async() -> None:
    model = concert()
    one = model()

    async def work() -> None:
        await one.likes.aincrement(5)
        await one.likes.adecrement()
        await one.seats.aincrement(10)
        assert await atransfer(one.seats, 4, to="us") == 6
        assert await one.likes.avalue() == 4
        assert await model.likes.avalues_of([one]) == {one: 4}
        assert await RegionalCounter("likes").avalues_of(Song.objects.all()) == {}
        await sync_to_async(connections.close_all)()

    exchange(EU, US)
    with EU.settings():
        asyncio.run(work())


class TestChecks:
    def test_right(self) -> None:
        assert not list(attribute_problems([concert()]))
        assert not [one for one in run_checks() if one.id == "counters.E043"]

    def test_no_regional_namespace(self) -> None:
        declared: dict[str, object] = {"likes": {}, "seats": {}}
        for namespaces in ({}, declared):
            with override_settings(COUNTERS=namespaces):
                found = list(attribute_problems([concert()]))
            assert [code for code, _ in found] == ["E043", "E043"]
        assert found[0][1] == "testapp.Concert.likes: COUNTERS['likes'] doesn't declare REGIONAL."

    def test_two_models(self) -> None:
        found = [message for _, message in attribute_problems([concert(), concert()])]
        assert found[0] == "testapp.Concert.likes: testapp.Concert also counts in 'likes'."

    @isolate_apps("tests.testapp")
    def test_an_heir_is_the_same_record(self) -> None:
        class Parent(Named):
            class Meta:
                app_label = "testapp"

        class Proxy(Parent):
            class Meta:
                app_label = "testapp"
                proxy = True

        assert not list(attribute_problems([Parent, Proxy]))
        assert not list(attribute_problems([Proxy, Parent]))

    @isolate_apps("tests.testapp")
    def test_a_number_that_each_region_gives(self) -> None:
        class Numbered(models.Model):
            likes = RegionalCounter("likes")

            class Meta:
                app_label = "testapp"

        class Heir(Numbered):
            class Meta:
                app_label = "testapp"

        class Twin(models.Model):
            heir = models.OneToOneField(Heir, models.CASCADE, primary_key=True)
            seats = RegionalCounter("seats")

            class Meta:
                app_label = "testapp"

        found = list(attribute_problems([Numbered, Heir, Twin]))
        assert [code for code, _ in found] == ["W018"] * 3
        assert found[0][1].startswith("testapp.Numbered.likes: ")

    @isolate_apps("tests.testapp")
    def test_heirs_may_count_elsewhere(self) -> None:
        class Concert(Named):
            class Meta:
                app_label = "testapp"

        class Play(Named):
            likes = RegionalCounter("hits")
            seats = RegionalCounter("stock")

            class Meta:
                app_label = "testapp"

        assert not list(attribute_problems([Concert, Play]))

    def test_wrong_settings_are_told_elsewhere(self) -> None:
        with override_counters(likes={"REGIONAL": "no"}):
            assert not check_attributes()
