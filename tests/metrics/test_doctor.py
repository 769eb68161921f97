"""The doctor: what waits where, and whether it belongs there."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.contrib.contenttypes.models import ContentType
from django.core.management import call_command

from django_counters.adjustments import guard
from django_counters.features import Finding
from django_counters.metrics.doctor import examine
from django_counters.models import (
    Counter,
    CounterShard,
    SlottedCounter,
)
from django_counters.testing import override_counters
from django_counters.upkeep import rollup
from tests.schemas import changes_schema
from tests.testapp.models import Post, Song

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
