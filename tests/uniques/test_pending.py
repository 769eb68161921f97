"""What the doctor says of members that wait for their sets."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest
from django.test import override_settings

from django_counters import clock
from django_counters.features import Finding
from django_counters.metrics.doctor import examine
from django_counters.models import Counter, CounterHorizon, CounterMeasure
from django_counters.testing import override_counters
from django_counters.upkeep import rollup
from tests.testapp.models import Talk

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _counted() -> Iterator[None]:
    with override_counters(hits={"UNIQUE": ["hour", "day"]}, plain={}):
        for key, who in (("hits:a", 1), ("hits:a", 2), ("hits:b", 1)):
            Counter.objects.increment(key, who=who)
        Counter.objects.increment("plain:a")
        yield


def test_those_who_came_since_the_last_rollup_need_nothing() -> None:
    declare(minutes_ago=60)
    roll_up(minutes_ago=9)
    assert examine() == [Finding("members of hits", "", 6, 2)]


@pytest.mark.parametrize("ever", [True, False])
def test_a_rollup_that_does_not_come_is_needed(*, ever: bool) -> None:
    declare(minutes_ago=11)
    if ever:
        roll_up(minutes_ago=11)
    (found,) = examine()
    assert (found.subject, found.rows, found.counters) == ("members of hits", 6, 2)
    assert (found.needed, found.command) == (True, "manage.py counters upkeep rollup")
    assert "10 minutes" in found.action
    rollup()
    assert examine() == []


def test_those_who_come_after_the_first_rollup_need_nothing() -> None:
    declare(minutes_ago=60)
    rollup()
    Counter.objects.increment("hits:a", who=3)
    assert examine() == [Finding("members of hits", "", 2, 1)]
    roll_up(minutes_ago=11)
    assert [found.needed for found in examine()] == [True]
    rollup()
    Counter.objects.increment("hits:a", who=4)
    assert [found.needed for found in examine()] == [False]


def test_none_waits_for_longer_than_it_is_declared() -> None:
    declare(minutes_ago=9)
    roll_up(minutes_ago=600)
    assert [found.needed for found in examine()] == [False]


def test_without_time_zones() -> None:
    with override_settings(USE_TZ=False, TIME_ZONE="Asia/Tokyo"):
        declare(minutes_ago=11)
        roll_up(minutes_ago=9)
        assert [found.needed for found in examine()] == [False]
        roll_up(minutes_ago=11)
        assert [found.needed for found in examine()] == [True]


def test_fields_are_named() -> None:
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
