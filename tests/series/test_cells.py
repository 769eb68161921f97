"""A change adds to its total and to the cells of its periods and tags, or to nothing."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.db import transaction
from django.test import TestCase
from django.utils import timezone

from django_counters import clock
from django_counters.contrib.series.models import CounterCell, CounterTag
from django_counters.errors import (
    CeilingExceeded,
    CounterOverflow,
    InsufficientCount,
    InvalidMoment,
    InvalidTags,
    TokenConflict,
    UnsupportedSeries,
)
from django_counters.models import Counter, CounterMeasure
from django_counters.testing import override_counters
from django_counters.tokens import mint
from tests.series.cells import MEASURED, STRATEGIES, by_country, cells, land, midnight
from tests.testapp.models import Story

pytestmark = pytest.mark.django_db(transaction=True)
DE, FR = {"country": "DE"}, {"country": "FR"}


def sums(key: str) -> tuple[int, int]:
    """What all hours and all days of a counter sum to."""
    land()
    return sum(cells(key, "hour").values()), sum(cells(key, "day").values())


class TestCounting:
    def test_each_period_and_tag_has_its_cell(self, counted: str) -> None:
        Counter.objects.increment(counted, 3, tags=DE)
        Counter.objects.increment(counted, tags=FR)
        Counter.objects.decrement(counted, 2, tags=DE)
        Counter.objects.increment(counted)
        land()
        today = midnight(clock.utc())
        assert cells(counted) == {(today, "DE"): 1, (today, "FR"): 1, (today, ""): 1}
        assert by_country(counted) == {"DE": 1, "FR": 1, None: 1}
        assert sums(counted) == (3, 3)
        assert Counter.objects.value(counted) == 3

    def test_it_is_counted_when_it_happened(self, counted: str) -> None:
        now = clock.utc()
        ago = now - timedelta(days=3)
        Counter.objects.increment(counted, 5, at=ago, tags=DE)
        Counter.objects.increment(counted, 2)
        land()
        assert cells(counted) == {(midnight(ago), "DE"): 5, (midnight(now), ""): 2}

    def test_many_at_once(self, counted: str) -> None:
        other = "hits:other"
        Counter.objects.increment_many({counted: 2, other: 3}, tags=DE)
        Counter.objects.decrement_many({counted: 1, other: 1}, tags=FR)
        land()
        assert by_country(counted) == {"DE": 2, "FR": -1}
        assert by_country(other) == {"DE": 3, "FR": -1}

    def test_a_collector_keeps_them_apart(self, counted: str) -> None:
        ago = clock.utc() - timedelta(days=2)
        with Counter.objects.collect():
            Counter.objects.increment(counted, 2, tags=DE)
            Counter.objects.increment(counted, 2, tags=DE)
            Counter.objects.increment(counted, 3, tags=DE, at=ago)
            Counter.objects.decrement(counted, 7, tags=FR)
        land()
        today = midnight(clock.utc())
        # The total is as it was; its cells are not.
        assert Counter.objects.value(counted) == 0
        assert cells(counted) == {(today, "DE"): 4, (midnight(ago), "DE"): 3, (today, "FR"): -7}

    def test_a_savepoint_takes_them_with_it(self, counted: str) -> None:
        def fail() -> None:
            with transaction.atomic():
                Counter.objects.increment(counted, 10, tags=FR)
                raise LookupError

        with transaction.atomic():
            Counter.objects.increment(counted, tags=DE)
            with pytest.raises(LookupError):
                fail()
        land()
        assert by_country(counted) == {"DE": 1}
        assert Counter.objects.value(counted) == 1

    def test_what_is_sent_on_commit_is_merged_by_cell(self, counted: str) -> None:
        with transaction.atomic():
            for country in ("DE", "FR", "DE"):
                Counter.objects.increment(counted, tags={"country": country})
        land()
        assert by_country(counted) == {"DE": 2, "FR": 1}
        assert Counter.objects.value(counted) == 3

    def test_a_token_counts_once(self, counted: str) -> None:
        token = mint(clock.utc())
        for replayed in (False, True):
            result = Counter.objects.increment(counted, 4, tags=DE, token=token)
            assert result.replayed is replayed
        others: list[dict[str, Any]] = [{}, {"tags": FR}, {"tags": DE, "at": clock.utc()}]
        for _ in range(2):
            for other in others:
                with pytest.raises(TokenConflict):
                    Counter.objects.increment(counted, 4, token=token, **other)
            land()
        plain = mint(clock.utc())
        Counter.objects.increment(counted, 1, token=plain)
        with pytest.raises(TokenConflict):
            Counter.objects.increment(counted, 1, tags=DE, token=plain)
        assert Counter.objects.increment(counted, 1, token=plain).replayed
        land()
        assert by_country(counted) == {"DE": 4, None: 1}
        assert Counter.objects.value(counted) == 5
        with pytest.raises(TokenConflict):
            Counter.objects.increment(counted, 5, tags=DE, token=token)

    @pytest.mark.usefixtures("cached")
    @pytest.mark.parametrize(
        ("strategy", "token"),
        [("exact", "a text"), *((one, None) for one in STRATEGIES), ("ledger", "a text")],
    )
    def test_a_repeated_call_is_not_refused_for_its_moment(
        self, strategy: str, token: str | None, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """It was counted when its period was still kept."""
        now = clock.utc()
        given, moment = token or mint(now), now - timedelta(hours=23)
        with override_counters(hits={"STRATEGY": strategy, "PER": ["hour"], "KEEP": {"hour": 1}}):
            Counter.objects.increment("hits:a", 4, at=moment, token=given)
            monkeypatch.setattr(clock, "utc", lambda: now + timedelta(hours=3))
            assert Counter.objects.increment("hits:a", 4, at=moment, token=given).replayed
            with pytest.raises(InvalidMoment):
                Counter.objects.increment("hits:a", 4, at=moment)
            monkeypatch.undo()
            assert Counter.objects.value("hits:a") == 4

    def test_async_code(self, counted: str) -> None:
        async def count() -> None:
            await Counter.objects.aincrement(counted, tags=DE)
            await Counter.objects.aincrement_many({counted: 2, "hits:other": 1}, tags=FR)
            async with Counter.objects.acollect():
                await Counter.objects.aincrement(counted, 5, tags=DE)

        async_to_sync(count)()
        land()
        assert by_country(counted) == {"DE": 6, "FR": 2}

    def test_a_refused_change_adds_to_no_cell(self) -> None:
        with override_counters(hits={"FLOOR": 0, "CEILING": 10, **MEASURED}):
            Counter.objects.increment("hits:page", 4, tags=DE)
            with pytest.raises(InsufficientCount):
                Counter.objects.decrement("hits:page", 5, tags=DE)
            with pytest.raises(CeilingExceeded):
                Counter.objects.increment_many({"hits:page": 7, "hits:other": 1}, tags=DE)
            with pytest.raises(CounterOverflow):
                Counter.objects.increment("big:x", 2**63 - 1)
                Counter.objects.increment("big:x", 1)
            assert cells("hits:page") == {(midnight(clock.utc()), "DE"): 4}
            assert not cells("hits:other")

    def test_where_increments_wait_elsewhere(self) -> None:
        """As they do after a change of strategy: the slow way of an exact counter."""
        with override_counters(hits={"STRATEGY": "sharded", **MEASURED}):
            Counter.objects.increment("hits:page", 2, tags=DE)
        with override_counters(hits={"FLOOR": 0, **MEASURED}):
            Counter.objects.decrement("hits:page", tags=DE)
            assert sums("hits:page") == (1, 1)


@pytest.mark.usefixtures("cached")
@pytest.mark.parametrize("field", ["opens", "plays", "reads"])
class TestFields:
    def test_they_are_counted_by_period(self, field: str) -> None:
        story = Story.objects.create()
        getattr(story, field).increment(2, tags=DE)
        getattr(story, field).decrement(tags=FR)
        getattr(Story, field).of(story.pk).increment(at=clock.utc() - timedelta(days=1))
        land()
        assert by_country(str(story.pk), f"testapp.Story.{field}") == {"DE": 2, "FR": -1, None: 1}
        assert getattr(story, field).value() == 2

    def test_a_deleted_record_takes_its_cells_along(self, field: str) -> None:
        first, second = Story.objects.create(), Story.objects.create()
        for story in (first, second):
            getattr(story, field).increment(tags=DE)
        if field == "reads":
            land()
            # In Redis, too.
            getattr(first, field).increment(tags=FR)
        key = str(first.pk)
        first.delete()
        land()
        assert not cells(key)
        assert sum(cells(str(second.pk)).values()) == 1

    def test_a_new_record_with_its_key_has_counted_nothing(self, field: str) -> None:
        first = Story.objects.create()
        getattr(first, field).increment(tags=DE)
        key = first.pk
        first.delete()
        Story.objects.create(pk=key)
        land()
        assert not cells(str(key))


class TestMoments:
    def test_too_far_ahead(self, counted: str) -> None:
        now = clock.utc()
        Counter.objects.increment(counted, at=now + timedelta(minutes=4))
        for moment in (
            now + timedelta(minutes=6),
            datetime.max.replace(tzinfo=UTC),
            "2026-01-01",
            5,
        ):
            with pytest.raises(InvalidMoment):
                Counter.objects.increment(counted, at=moment)  # type: ignore[arg-type]
        assert sums(counted) == (1, 1)

    def test_what_is_long_ago_is_counted_where_it_is_kept(self) -> None:
        ago = clock.utc() - timedelta(days=5)
        with override_counters(hits={**MEASURED, "KEEP": {"hour": 3}}):
            Counter.objects.increment("hits:page", at=ago)
            assert sums("hits:page") == (0, 1)
        with override_counters(hits={**MEASURED, "KEEP": {"hour": 3, "day": 4}}):
            with pytest.raises(InvalidMoment, match="kept"):
                Counter.objects.increment("hits:page", at=ago)
            assert Counter.objects.value("hits:page") == 1

    def test_a_moment_without_a_zone_is_of_the_present_one(self) -> None:
        with override_counters(hits=MEASURED), timezone.override("Asia/Kolkata"):
            Counter.objects.increment("hits:page", at=datetime(2026, 1, 2, 3, 4))  # noqa: DTZ001
            ((start, _),) = cells("hits:page", "hour")
            assert start.isoformat() == "2026-01-01T21:00:00+00:00"


class TestTags:
    @pytest.mark.parametrize(
        ("tags", "reason"),
        [
            ({"city": "Bonn"}, "'city' is not declared, but country, device"),
            ({"country": "x" * 61}, "61 characters"),
            ({"country": 1.5}, "is a float"),
            ({"country": True}, "is a bool"),
            ({"country": "a\nb"}, "cannot be printed"),
            ({"country": "%" * 60}, "encoded"),
            ([("country", "DE")], "no dictionary"),
        ],
    )
    def test_what_cannot_be_one(self, counted: str, tags: Any, reason: str) -> None:
        with pytest.raises(InvalidTags, match=reason):
            Counter.objects.increment(counted, tags=tags)
        with pytest.raises(InvalidTags):
            Counter.objects.increment_many({counted: 1}, tags=tags)
        land()
        assert (Counter.objects.value(counted), cells(counted)) == (0, {})

    def test_any_text_comes_back(self, counted: str) -> None:
        values = ["a|b %7C", "~", "Côte d'Ivoire"]
        for value in values:
            Counter.objects.increment(counted, tags={"country": value, "device": None})
        land()
        assert by_country(counted) == dict.fromkeys(values, 1)

    def test_a_number_is_one_and_nothing_is_none(self, counted: str) -> None:
        for value in (404, "", None):
            Counter.objects.increment(counted, tags={"country": value})
        land()
        assert by_country(counted) == {"404": 1, None: 2}

    def test_later_values_are_counted_together(self, counted: str) -> None:
        for country in ("DE", "FR", "US", "IT", "DE", "ES", "IT"):
            Counter.objects.increment(counted, tags={"country": country})
            land()
        assert by_country(counted) == {"DE": 2, "FR": 1, "US": 1, "~": 3}
        assert CounterTag.objects.count() == 3

    def test_so_are_those_of_one_transaction(self, counted: str) -> None:
        with transaction.atomic():
            for country in ("DE", "FR", "US", "IT", "ES"):
                Counter.objects.increment(counted, tags={"country": country})
        land()
        found = by_country(counted)
        assert found.pop("~") == 2
        assert set(found.values()) == {1}

    def test_a_rolled_back_value_takes_no_place(self) -> None:
        with override_counters(hits=MEASURED):
            with transaction.atomic():
                Counter.objects.increment("hits:page", tags={"country": "XX"})
                transaction.set_rollback(True)
            for country in ("DE", "FR", "US"):
                Counter.objects.increment("hits:page", tags={"country": country})
            assert by_country("hits:page") == {"DE": 1, "FR": 1, "US": 1}

    def test_a_new_tag_comes_last(self) -> None:
        with override_counters(hits={"PER": ["day"], "TAGS": {"country": 9}}):
            Counter.objects.increment("hits:page", tags=DE)
        with override_counters(hits={"PER": ["day"], "TAGS": {"device": 9, "country": 9}}):
            Counter.objects.increment("hits:page", tags={"device": "tv", "country": "FR"})
            assert by_country("hits:page") == {"DE": 1, "FR": 1}
        assert CounterMeasure.objects.get(name="hits").tags == ["country", "device"]

    def test_without_periods_there_are_none(self) -> None:
        asked: list[dict[str, Any]] = [{"tags": DE}, {"at": clock.utc()}]
        for given in asked:
            with pytest.raises(UnsupportedSeries):
                Counter.objects.increment("plain:x", **given)
            with pytest.raises(UnsupportedSeries):
                Counter.objects.increment_many({"plain:x": 1}, **given)
        assert not CounterCell.objects.exists()


class TestInATestCase(TestCase):
    """Whose transaction never commits, and is no transaction of the caller."""

    def test_it_counts_as_elsewhere(self) -> None:
        with override_counters(hits=MEASURED):
            for country in ("DE", "FR", "US", "IT", "IT"):
                Counter.objects.increment("hits:page", tags={"country": country})
            assert by_country("hits:page") == {"DE": 1, "FR": 1, "US": 1, "~": 2}
            with self.captureOnCommitCallbacks(execute=True):
                Counter.objects.increment("hits:page", tags={"country": "ES"})
            assert by_country("hits:page")["~"] == 3

    def test_and_leaves_nothing_behind(self) -> None:
        with override_counters(hits=MEASURED):
            for country in ("A", "B", "C"):
                Counter.objects.increment("hits:page", tags={"country": country})
            assert by_country("hits:page") == {"A": 1, "B": 1, "C": 1}
