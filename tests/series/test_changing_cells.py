"""Whatever changes a total changes its cells: querysets, entries, corrections, and many tags."""

from __future__ import annotations

import gc
import tracemalloc
from collections import Counter as Tally
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.contrib.auth.models import User

from django_counters import clock
from django_counters.contrib.series.models import CounterCell
from django_counters.contrib.series.tags import SqlTags
from django_counters.errors import (
    InsufficientCount,
    InvalidMoment,
    InvalidTags,
    UnsupportedSeries,
)
from django_counters.models import (
    Counter,
    CounterDelta,
    CounterShard,
    SlottedCounter,
)
from django_counters.registry import registry
from django_counters.testing import override_counters
from django_counters.tokens import mint
from tests.series.cells import MEASURED, by_country, cells, land, midnight
from tests.testapp.models import Post, Story

pytestmark = pytest.mark.django_db(transaction=True)


def in_days() -> Iterable[CounterCell]:
    return CounterCell.objects.filter(period=CounterCell.Period.DAY)


def of_story(story: Story, field: str) -> int:
    return sum(by_country(str(story.pk), f"testapp.Story.{field}").values())


@pytest.mark.usefixtures("cached")
class TestQuerysets:
    def test_they_count_by_period(self) -> None:
        stories = [Story.objects.create(), Story.objects.create()]
        Story.objects.increment(opens=3, plays=2, reads=1)
        Story.objects.filter(pk=stories[0].pk).decrement(opens=1)
        land()
        for field, sums in {"opens": [2, 3], "plays": [2, 2], "reads": [1, 1]}.items():
            assert [of_story(story, field) for story in stories] == sums

    def test_a_refused_one_counts_nothing(self) -> None:
        first, second = Story.objects.create(opens=5), Story.objects.create()
        with pytest.raises(InsufficientCount):
            Story.objects.decrement(opens=1)
        assert not CounterCell.objects.exists()
        assert (first.opens.value(), second.opens.value()) == (5, 0)

    def test_slots_of_a_field(self) -> None:
        story = Story.objects.create()
        SlottedCounter.objects.increment(story, "plays", 4)
        SlottedCounter.objects.increment(story, "opens", 2)
        assert (of_story(story, "plays"), of_story(story, "opens")) == (4, 2)


NOW = clock.utc()
AGO = NOW - timedelta(days=3)
WAYS: dict[str, Callable[..., Any]] = {
    "slots": lambda story, **said: SlottedCounter.objects.increment(story, "plays", **said),
    "slots of an exact field": lambda story, **said: SlottedCounter.objects.decrement(
        story, "opens", -1, **said
    ),
    "slots, from async code": lambda story, **said: async_to_sync(
        SlottedCounter.objects.aincrement
    )(story, "plays", **said),
    "queryset": lambda story, **said: Story.objects.increment(opens=1, plays=1, reads=1, **said),
    "queryset, from async code": lambda story, **said: async_to_sync(
        Story.objects.all().adecrement
    )(reads=-1, **said),
    "rows": lambda story, **said: Counter.objects.filter(key="hits:a").increment(**said),
    "rows, from async code": lambda story, **said: async_to_sync(
        Counter.objects.filter(key="hits:a").aincrement
    )(**said),
    "shards": lambda story, **said: CounterShard.objects.increment("hits:a", **said),
    "shards, from async code": lambda story, **said: async_to_sync(CounterShard.objects.aincrement)(
        "hits:a", **said
    ),
    "entry": lambda story, **said: CounterDelta.objects.append("hits:a", 1, **said),
    "entry, from async code": lambda story, **said: async_to_sync(CounterDelta.objects.aappend)(
        "hits:a", 1, **said
    ),
    "entries": lambda story, **said: CounterDelta.objects.append_many(
        [("hits:a", 1, mint(clock.utc()))], **said
    ),
    "entries, from async code": lambda story, **said: async_to_sync(
        CounterDelta.objects.aappend_many
    )([("hits:a", 1)], **said),
}
WRONG: dict[type[Exception], dict[str, Any]] = {
    InvalidMoment: {"at": NOW + timedelta(days=1)},
    InvalidTags: {"tags": {"city": "Graz"}},
}


@pytest.mark.usefixtures("cached")
@pytest.mark.parametrize("way", WAYS)
class TestWhenAndOfWhatKind:
    """Whatever counts may say when it happened, and by which tags."""

    @pytest.fixture(autouse=True)
    def _declared(self) -> Iterator[None]:
        with override_counters(hits=MEASURED):
            Counter.objects.create(key="hits:a")
            yield

    @pytest.fixture
    def story(self) -> Story:
        return Story.objects.create()

    def test_it_is_counted_there(self, way: str, story: Story) -> None:
        WAYS[way](story, at=AGO, tags={"country": "DE"})
        land()
        days = {(cell.start.astimezone(UTC), cell.tags) for cell in in_days()}
        assert days == {(midnight(AGO), "DE")}
        assert {cell.value for cell in in_days()} == {1}

    @pytest.mark.parametrize("error", WRONG)
    def test_what_is_wrong_changes_nothing(
        self, way: str, story: Story, error: type[Exception]
    ) -> None:
        with pytest.raises(error):
            WAYS[way](story, **WRONG[error])
        land()
        assert not CounterCell.objects.exists()
        values = [getattr(story, field).value() for field in ("opens", "plays", "reads")]
        assert [*values, Counter.objects.value("hits:a")] == [0, 0, 0, 0]


@pytest.mark.parametrize("said", [{"at": AGO}, {"tags": {"country": "DE"}}])
def test_what_has_no_periods_refuses_both(said: dict[str, Any]) -> None:
    post = Post.objects.create()
    Counter.objects.create(key="plain:a")
    ways: list[Callable[[], object]] = [
        lambda: SlottedCounter.objects.increment(post, "seen", **said),
        lambda: SlottedCounter.objects.increment(post, "views", **said),
        lambda: Post.objects.increment(views=1, **said),
        lambda: Counter.objects.filter(key="plain:a").increment(**said),
        lambda: CounterShard.objects.increment("plain:a", **said),
        lambda: CounterDelta.objects.append("plain:a", 1, **said),
        lambda: CounterDelta.objects.append_many([("plain:a", 1)], **said),
        lambda: CounterDelta.objects.append_many([("plain:a", 1, mint(clock.utc()))], **said),
    ]
    for way in ways:
        with pytest.raises(UnsupportedSeries):
            way()
    assert Counter.objects.value("plain:a") == 0
    assert (post.views.value(), SlottedCounter.objects.value(post, "seen")) == (0, 0)


class TestEntries:
    def test_many(self) -> None:
        with override_counters(hits={"STRATEGY": "ledger", **MEASURED}):
            token = mint(clock.utc())
            CounterDelta.objects.append("hits:a", 1, token=token)
            entries: list[Any] = [("hits:a", 2), ("hits:b", 3), ("hits:a", 4)]
            CounterDelta.objects.append_many(entries)
            CounterDelta.objects.append_many(
                [("hits:a", 1, token), ("hits:b", 9, mint(clock.utc()))]
            )
            if Counter.objects.db_manager("default").db == "default":
                CounterDelta.objects.append_many([("hits:b", 5)], copy=True)
            assert Counter.objects.value("hits:a") == sum(cells("hits:a").values()) == 7
            assert Counter.objects.value("hits:b") == sum(cells("hits:b").values()) == 17

    def test_shards(self) -> None:
        with override_counters(hits=MEASURED):
            CounterShard.objects.increment("hits:a", 3)
            assert sum(cells("hits:a").values()) == 3


class TestCorrections:
    def test_an_adjustment_stands_in_its_period(self, counted: str) -> None:
        actor = User.objects.create(username="ann")
        Counter.objects.increment(counted, 5, tags={"country": "DE"})
        land()
        Counter.objects.adjust(counted, to=3, reason="miscounted", actor=actor)
        assert by_country(counted) == {"DE": 5, None: -2}
        assert Counter.objects.value(counted) == 3

    def test_so_does_one_of_a_record(self, cached: str) -> None:
        actor = User.objects.create(username="ann")
        for field in ("opens", "plays", "reads"):
            story = Story.objects.create()
            getattr(story, field).increment(5)
            land()
            getattr(story, field).adjust(by=2, reason="found", actor=actor)
            assert of_story(story, field) == 7

    def test_a_forgotten_counter_comes_to_nothing(self, counted: str) -> None:
        Counter.objects.increment(counted, 5)
        land()
        assert Counter.objects.forget(counted) == 5
        assert sum(cells(counted).values()) == Counter.objects.value(counted) == 0


class TestMemory:
    def test_a_process_keeps_no_more_values_than_are_declared(self) -> None:
        """20,000 values of a tag, and as many keys, leave its memory as it was."""
        with override_counters(hits={"PER": ["day"], "TAGS": {"country": 3}}):
            stored = registry.measures("default")
            for number in range(200):
                self._count(number)
            gc.collect()
            tracemalloc.start()
            before, _ = tracemalloc.get_traced_memory()
            tags = SqlTags("default")
            measure = registry.policy("hits:a").measure
            assert measure
            for number in range(20_000):
                row = stored.ensure(measure)
                assert tags.admit(row, "country", f"v{number}", 3) == "~" or number < 3
            for number in range(2_000):
                self._count(number)
            gc.collect()
            grown = tracemalloc.get_traced_memory()[0] - before
            tracemalloc.stop()
        assert grown < 200_000, f"{grown} bytes more"

    @staticmethod
    def _count(number: int) -> None:
        Counter.objects.increment(f"hits:{number}", tags={"country": f"v{number}"})


def test_history_of_days_that_are_gone(counted: str) -> None:
    """What is counted late is counted once, and where it belongs."""
    # Two moments 24 hours apart may share a day of 25 hours.
    moments = [clock.utc() - timedelta(days=days) for days in range(40)]
    by_day: Tally[datetime] = Tally()
    for number, moment in enumerate(moments, 1):
        by_day[midnight(moment)] += number
        Counter.objects.increment(counted, number, at=moment)
    land()
    assert {start: value for (start, _), value in cells(counted).items()} == by_day
    assert sum(cells(counted, "hour").values()) == Counter.objects.value(counted) == 820
