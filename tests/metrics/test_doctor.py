"""The doctor: what waits where, and whether it belongs there."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest
from django.contrib.contenttypes.models import ContentType
from django.core.management import call_command
from django.test import override_settings

from django_counters import clock
from django_counters.adjustments import guard
from django_counters.features import Finding
from django_counters.metrics.doctor import examine
from django_counters.models import (
    Counter,
    CounterHorizon,
    CounterMeasure,
    CounterShard,
    SlottedCounter,
)
from django_counters.testing import override_counters
from django_counters.upkeep import rollup
from tests.schemas import changes_schema
from tests.testapp.models import Post, Song, Talk

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _new_content_types() -> Iterator[None]:
    """A number that was rolled back may be used again, for another model."""
    ContentType.objects.clear_cache()
    yield
    ContentType.objects.clear_cache()


@changes_schema
def test_a_guard_that_is_gone_is_found() -> None:
    assert examine() == []
    guard.remove("default")
    (found,) = examine()
    assert (found.subject, found.needed) == ("adjustments", True)
    assert found.command == "manage.py migrate"
    assert "missing" in found.action
    guard.make("default")
    assert examine() == []


def test_what_waits_where_it_belongs_needs_nothing() -> None:
    with override_counters(likes={"STRATEGY": "sharded"}):
        for number in range(3):
            Counter.objects.increment("likes:a", shard_key=number)
        Counter.objects.increment("likes:b")
        song = Song.objects.create()
        song.plays.increment()
        SlottedCounter.objects.increment(song, "downloads")
        rows = CounterShard.objects.count()
        assert set(examine()) == {
            Finding("likes", "sharded", rows, 2),
            Finding("slots of testapp.Song.downloads", "slotted", 1, 1),
            Finding("slots of testapp.Song.plays", "slotted", 1, 1),
        }


def test_what_is_left_by_a_change_of_strategy_has_to_be_folded() -> None:
    with override_counters(likes={"STRATEGY": "sharded"}):
        Counter.objects.increment("likes:a")
    CounterShard.objects.increment("plain")
    SlottedCounter.objects.increment(Post.objects.create(), "views")
    found = {finding.subject: finding for finding in examine()}
    assert set(found) == {"(no namespace)", "likes", "slots of testapp.Post.views"}
    assert {finding.strategy for finding in found.values()} == {"exact"}
    assert "sharded" in found["likes"].action
    assert "counters upkeep rollup" in found["likes"].action
    assert "slotted" in found["slots of testapp.Post.views"].action
    assert {finding.command for finding in found.values()} == {"manage.py counters upkeep rollup"}
    SlottedCounter.objects.increment(Song.objects.create(), "downloads")
    rollup()
    # A total that stands in a slot is not waiting.
    assert SlottedCounter.objects.exists()
    assert examine() == []


def test_slots_of_a_model_that_is_gone() -> None:
    kind = ContentType.objects.create(app_label="gone", model="nothing")
    SlottedCounter.objects.create(record_type=kind, record_id="1", name="a", slot=0, count=5)
    (finding,) = examine()
    assert finding.subject == "gone.nothing.a"
    assert "the model is gone" in finding.action
    assert "5 in 1 rows" in finding.action
    assert (rollup().rows, SlottedCounter.objects.get().count) == (0, 5)
    # Without the option Django does nothing about an app that is not installed.
    assert finding.command == "manage.py remove_stale_contenttypes --include-stale-apps"
    ContentType.objects.filter(pk=kind.pk).update(app_label="testapp")
    ContentType.objects.clear_cache()
    (finding,) = examine()
    assert finding.command == "manage.py remove_stale_contenttypes"
    call_command("remove_stale_contenttypes", interactive=False, verbosity=0)
    assert examine() == []


class TestMembers:
    """Actors who wait to be put into sets."""

    @pytest.fixture(autouse=True)
    def _counted(self) -> Iterator[None]:
        with override_counters(hits={"UNIQUE": ["hour", "day"]}, plain={}):
            for key, who in (("hits:a", 1), ("hits:a", 2), ("hits:b", 1)):
                Counter.objects.increment(key, who=who)
            Counter.objects.increment("plain:a")
            yield

    def test_those_who_came_since_the_last_rollup_need_nothing(self) -> None:
        declare(minutes_ago=60)
        roll_up(minutes_ago=9)
        assert examine() == [Finding("members of hits", "", 6, 2)]

    @pytest.mark.parametrize("ever", [True, False])
    def test_a_rollup_that_does_not_come_is_needed(self, *, ever: bool) -> None:
        declare(minutes_ago=11)
        if ever:
            roll_up(minutes_ago=11)
        (found,) = examine()
        assert (found.subject, found.rows, found.counters) == ("members of hits", 6, 2)
        assert (found.needed, found.command) == (True, "manage.py counters upkeep rollup")
        assert "10 minutes" in found.action
        rollup()
        assert examine() == []

    def test_none_waits_for_longer_than_it_is_declared(self) -> None:
        declare(minutes_ago=9)
        roll_up(minutes_ago=600)
        assert [found.needed for found in examine()] == [False]

    def test_without_time_zones(self) -> None:
        with override_settings(USE_TZ=False, TIME_ZONE="Asia/Tokyo"):
            declare(minutes_ago=11)
            roll_up(minutes_ago=9)
            assert [found.needed for found in examine()] == [False]
            roll_up(minutes_ago=11)
            assert [found.needed for found in examine()] == [True]

    def test_fields_are_named(self) -> None:
        rollup()
        talk = Talk.objects.create()
        talk.seats.increment(who=1)
        assert "members of testapp.Talk.seats" in {found.subject for found in examine()}


def declare(minutes_ago: float) -> None:
    """Let all that is counted have been declared then."""
    made = clock.now() - timedelta(minutes=minutes_ago)
    CounterMeasure.objects.update(made_at=made)


def roll_up(minutes_ago: float) -> None:
    """Let the last rollup have been then; what came later waits."""
    at = clock.now() - timedelta(minutes=minutes_ago)
    CounterHorizon.objects.update_or_create(pk=1, defaults={"rolled_up_at": at})
