"""The histories of buffers that publish: what a consumer counts, drops, misses and puts aside."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db.models import F

from django_counters import clock
from django_counters.contrib.buffers import pages
from django_counters.contrib.buffers.process import buffers as present
from django_counters.contrib.streams.consuming import Consumed
from django_counters.errors import CounterUnavailable
from django_counters.models import Counter, CounterIncident, CounterPosition
from django_counters.stores.sql.positions import SqlPositions
from django_counters.tokens import mint
from django_counters.types import INT8
from django_counters.upkeep import prune_histories
from tests.buffers.buffering import landed
from tests.stores.test_failures import beside
from tests.streams.conftest import Clicks
from tests.streams.published import again, publish, published, reached

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("publishing")]


def test_a_repeat_in_another_part(clicks: Clicks) -> None:
    publish(7)
    for part in (0, 1, 1):
        again(clicks, published(clicks)[0], part)
    done = clicks.consumer().turn()
    assert (landed(), done.repeats) == (7, 3)


@pytest.mark.many_writers
def test_two_that_count_a_repeat_at_once(clicks: Clicks, monkeypatch: Any) -> None:
    """Both have read how far the history is, and neither has moved it."""
    publish(7)
    (found,) = published(clicks)
    clicks.client.delete(*clicks.parts)
    again(clicks, found, part=0)
    first, second = clicks.consumer(), clicks.consumer()
    move, met = SqlPositions.move, list[Any]()

    def meet(self: SqlPositions, moves: Any) -> None:
        if not met:
            # Somebody who comes to the same message in the other part.
            met.append(None)
            again(clicks, found, part=1)
            met.append(call(second.turn).result(30))
        move(self, moves)

    monkeypatch.setattr(SqlPositions, "move", meet)
    with beside() as call:
        done = first.turn()
    assert (met[1].messages, done.busy) == (1, [clicks.parts[0]])
    assert first.turn().repeats == 1
    assert landed() == 7


@pytest.mark.parametrize("where", ["land", "commit"])
def test_the_history_moves_with_what_is_counted(clicks: Clicks, where: str) -> None:
    publish(7)

    def step(name: str) -> None:
        if name == where:
            raise CounterUnavailable(using="default", reason="it is gone")

    with pytest.raises(CounterUnavailable):
        clicks.consumer(step=step).turn()
    assert (landed(), reached()) == (0, [])
    assert clicks.consumer().turn().repeats == 0
    assert (landed(), reached()) == (7, ["1"])


def test_a_gap_is_an_incident(clicks: Clicks) -> None:
    for _ in range(4):
        publish()
    entries = published(clicks)
    clicks.client.delete(*clicks.parts)
    for number in (0, 3):
        again(clicks, entries[number])
    done = clicks.consumer().turn()
    incarnation = entries[0]["incarnation"]
    assert (done.messages, done.incidents) == (2, [f"lost: buffer {incarnation} after 1"])
    assert landed() == 2
    (incident,) = CounterIncident.objects.all()
    assert (incident.kind, incident.subject) == ("lost", "stream clicks")
    assert incident.detail == {"part": incarnation, "after": "1", "before": "4"}
    # What comes after that is before it.
    again(clicks, entries[1])
    assert clicks.consumer().turn().repeats == 1
    assert landed() == 2


def test_a_history_without_its_beginning(clicks: Clicks) -> None:
    publish()
    publish()
    (_, second) = published(clicks)
    clicks.client.delete(*clicks.parts)
    again(clicks, second)
    assert len(clicks.consumer().turn().incidents) == 1
    assert landed() == 1


@pytest.mark.parametrize("days", [29, -3])
def test_what_is_too_old_or_of_the_future_is_put_aside(clicks: Clicks, days: int) -> None:
    """So long ago that nobody knows whether it was counted."""
    publish(7)
    (found,) = published(clicks)
    clicks.client.delete(*clicks.parts)
    page = mint(clock.utc() - timedelta(days=days)).hex
    for changed in ({}, {"number": 2, "page": page}, {"number": 3}):
        again(clicks, {**found, **changed})
    done = clicks.consumer().turn()
    assert (done.messages, done.poison, done.quarantined) == (3, 0, {"hits:home": 7})
    assert (landed(), reached(), done.incidents) == (14, ["3"], [])
    (incident,) = CounterIncident.objects.all()
    detail = incident.detail
    assert (detail["reason"], detail["amounts"]) == ("expired", {"hits:home": 7})


def test_the_rest_of_a_history_that_is_forgotten(clicks: Clicks) -> None:
    """Its first messages are too old, and what was before them is no gap."""
    publish(7)
    (found,) = published(clicks)
    clicks.client.delete(*clicks.parts)
    again(clicks, found, number=5, page=mint(clock.utc() - timedelta(days=29)).hex)
    again(clicks, found, number=6)
    done = clicks.consumer().turn()
    assert (landed(), reached(), done.incidents) == (7, ["6"], [])


@pytest.mark.parametrize(
    "changed",
    [
        {"number": 0},
        {"number": True},
        {"number": "2"},
        {"incarnation": "x"},
        {"page": "f" * 32},
        {"using": "other"},
        {"sums": {"hits:home": "7"}},
        {"sums": {"hits:home": 1.5}},
        {"sums": {"testapp.Post.likes 1": 7}},
        {"sums": {"#1.x.5  hits:home": 7}},
        pytest.param(
            {"sums": {f"#1.3.5 {'x' * 300} hits:home": 7}}, marks=pytest.mark.many_writers
        ),
        pytest.param({"sums": {"#1.3.5 a\0b hits:home": 7}}, marks=pytest.mark.postgresql),
        {"sums": 5},
        {"more": 1},
    ],
)
def test_what_no_buffer_has_published(clicks: Clicks, changed: dict[str, object]) -> None:
    publish(7)
    (found,) = published(clicks)
    clicks.client.delete(*clicks.parts)
    again(clicks, {**found, **changed})
    assert clicks.consumer().turn().poison == 1
    assert (landed(), reached()) == (0, [])
    assert CounterIncident.objects.count() == 1


def test_amounts_that_no_counter_can_take_are_put_aside(clicks: Clicks, monkeypatch: Any) -> None:
    monkeypatch.setattr(pages, "LARGE", 2**64)
    largest = INT8[1]
    for country, by in (("de", largest), ("de", largest), ("fr", -largest), ("fr", -largest)):
        Counter.objects.increment("seen:a", by, tags={"country": country})
    for _ in range(2):
        Counter.objects.increment("hits:home", largest)
    publish(key="hits:about")
    consumer, whole = clicks.consumer(), Consumed()
    while (done := consumer.turn()).messages:
        whole.join(done)
    assert whole.quarantined["hits:home"] == 2 * largest
    assert (landed("hits:about"), landed(), landed("seen:a")) == (1, 0, 0)


def test_histories_that_are_still_are_forgotten(clicks: Clicks) -> None:
    publish()
    clicks.consumer().turn()
    assert prune_histories() == 0
    move_back(timedelta(days=29))
    assert prune_histories() == 0
    present.clear()
    publish()
    clicks.consumer().turn()
    move_back(timedelta(days=2))
    assert (prune_histories(), len(reached())) == (1, 1)
    # Those of streams stay.
    assert CounterPosition._base_manager.filter(source="stream clicks").count() == 2


def move_back(by: timedelta) -> None:
    CounterPosition._base_manager.update(moved_at=F("moved_at") - by)
