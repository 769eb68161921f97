"""What cannot be promised is refused: nothing counts without the row of an actor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from django.db import models, transaction
from django.test.utils import isolate_apps

from django_counters import CounterField
from django_counters.clock import utc
from django_counters.conf import problems
from django_counters.contrib import likes as app
from django_counters.contrib.likes.models import CounterActor
from django_counters.errors import (
    CeilingExceeded,
    CounterError,
    InvalidActor,
    InvalidAdjustment,
    InvalidDelta,
    InvalidMoment,
    RecordMissing,
    UnsupportedCondition,
)
from django_counters.fields.columns import counter_fields
from django_counters.landing import land
from django_counters.models import (
    Counter,
    CounterDelta,
    CounterIncident,
    CounterShard,
    SlottedCounter,
)
from django_counters.stores.base import Parcel
from django_counters.tokens import mint
from tests.likes.conftest import KINDS, made
from tests.testapp.models import Gem, Note

pytestmark = pytest.mark.django_db
KEY, ROWS = "likes:page", "stars:page"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"ONCE": "soon"}, "not 'soon'"),
        ({"ONCE": False}, "not False"),
        ({"ONCE": "9999w"}, "at most ten years"),
        ({"ONCE": True, "STRATEGY": "cached"}, "not for cached"),
        ({"ONCE": "5m", "STRATEGY": "ledger"}, "not for a ledger"),
        ({"ONCE": True, "FLOOR": 3}, "floor of 3"),
        ({"ONCE": True, "CEILING": {"day": 5}}, "a ceiling of a period"),
    ],
)
def test_declarations(options: dict[str, Any], said: str) -> None:
    (problem,) = problems({"likes": options})
    assert problem.code == "E031"
    assert said in problem.message


@isolate_apps("tests.testapp")
def test_declarations_of_fields() -> None:
    class Refused(models.Model):
        soon = CounterField(once="soon")
        cached = CounterField(strategy="cached", once=True)
        floored = CounterField(floor=3, default=3, once="30m")
        started = CounterField(default=3, once=True)
        good = CounterField(strategy="slotted", once="30m")

        class Meta:
            app_label = "testapp"

    found = {field.name: [one.id for one in field.check()] for field in counter_fields(Refused)}
    assert found.pop("good") == []
    assert found.pop("started") == ["counters.E015"]
    assert found == {name: ["counters.E032"] for name in ("soon", "cached", "floored")}


def test_declarations_that_stand() -> None:
    for strategy in "exact", "sharded":
        for once in True, "30m", "24h", "2w", None:
            assert not list(problems({"likes": {"ONCE": once, "STRATEGY": strategy}}))
    assert not list(problems({"likes": {"ONCE": True, "FLOOR": 0, "CEILING": 9}}))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({}, InvalidActor),
        ({"who": ""}, InvalidActor),
        ({"who": True}, InvalidActor),
        ({"who": "x" * 65}, InvalidActor),
        ({"who": Note()}, InvalidActor),
        ({"who": 10**5000}, InvalidActor),
        ({"who": "ann", "at": "yesterday"}, InvalidMoment),
        ({"who": "ann", "by": 2}, InvalidDelta),
        ({"who": "ann", "by": -2}, InvalidDelta),
    ],
)
def test_calls(kind: str, given: dict[str, Any], error: type[CounterError]) -> None:
    likes = made(kind)
    for call in likes.increment, likes.decrement:
        with pytest.raises(error):
            call(**given)
    assert (likes.value(), likes.rows()) == (0, 0)


def _adjust(note: Note) -> object:
    return note.likes.adjust(by=1, reason="-", actor="eve")


WAYS: list[Callable[[Note], object]] = [
    lambda _: Counter.objects.increment_many({KEY: 1}),
    lambda _: Counter.objects.increment_many({KEY: 1}, who="ann"),
    lambda _: Counter.objects.filter(key=KEY).increment(),
    lambda _: CounterShard.objects.increment(ROWS),
    lambda _: CounterDelta.objects.append(KEY, 1),
    lambda _: CounterDelta.objects.append(KEY, 1, who="ann"),
    lambda _: CounterDelta.objects.append_many([(KEY, 1)]),
    lambda _: CounterDelta.objects.append_many([(KEY, 1, mint(utc()))]),
    lambda _: Counter.objects.adjust(KEY, to=5, reason="-", actor="eve"),
    lambda _: Note.objects.create(likes=5),
    lambda _: Note.objects.bulk_create([Note(stars=5)]),
    lambda note: Note.objects.filter(pk=note.pk).increment(likes=1),
    lambda note: Note.objects.filter(pk=note.pk).increment(stars=1, who="ann"),
    lambda note: SlottedCounter.objects.increment(note, "stars"),
    _adjust,
]


@pytest.mark.parametrize("way", WAYS)
def test_nothing_counts_without_a_row(way: Callable[[Note], object]) -> None:
    note = Note.objects.create()
    Counter.objects.increment(KEY, who="first")
    refused = (InvalidActor, InvalidDelta, InvalidAdjustment, UnsupportedCondition)
    with pytest.raises(refused), transaction.atomic():
        way(note)
    assert Counter.objects.values_of([KEY, ROWS]) == {KEY: 1, ROWS: 0}
    assert CounterActor.objects.count() == 1
    assert [note.likes.value(), note.stars.value(), Note.objects.count()] == [0, 0, 1]


def test_a_collector_makes_it_at_once() -> None:
    with Counter.objects.collect():
        assert Counter.objects.increment(KEY, who="ann") == 1
        with pytest.raises(InvalidActor):
            Counter.objects.increment(KEY)
    assert (Counter.objects.value(KEY), CounterActor.objects.count()) == (1, 1)


@pytest.mark.django_db(transaction=True)
def test_a_parcel_lands_beside_it() -> None:
    note = Note.objects.create()
    sums = {KEY: 5, "plain:page": 3, f"testapp.Note.likes {note.pk}": 4}
    land(Parcel(mint(utc()).hex, "logs", sums), "default")
    assert Counter.objects.values_of([KEY, "plain:page"]) == {KEY: 0, "plain:page": 3}
    assert note.likes.value() == 0
    told = [incident.detail["amounts"] for incident in CounterIncident.objects.all()]
    assert {key: by for amounts in told for key, by in amounts.items()} == {
        KEY: 5,
        f"testapp.Note.likes {note.pk}": 4,
    }


def test_bounds_and_missing_records_leave_no_row() -> None:
    gem = Gem.objects.create()
    for who in range(7):
        gem.likes.increment(who=who)
    with pytest.raises(CeilingExceeded):
        gem.likes.increment(who="late")
    assert (gem.likes.value(), CounterActor.objects.count()) == (7, 7)
    nobody = UUID(int=7)
    for counter in Gem.likes.of(nobody), Gem.stars.of(nobody):
        for call in counter.increment, counter.decrement:
            with pytest.raises(RecordMissing):
                call(who="ann")
    assert CounterActor.objects.count() == 7


@pytest.mark.django_db(transaction=True)
def test_what_is_refused_in_two_steps_leaves_no_row() -> None:
    Counter.objects.increment("few:page", who="ann")
    with pytest.raises(CeilingExceeded):
        Counter.objects.increment("few:page", who="bob")
    assert not app.has("few:page", "bob")
    assert Counter.objects.value("few:page") == CounterActor.objects.count() == 1


def test_of_others_nobody_is_asked_for() -> None:
    for call in (
        lambda: app.has("plain:page", "ann"),
        lambda: app.toggle("plain:page", "ann"),
        lambda: app.actors("plain:page"),
    ):
        with pytest.raises(app.UnsupportedActors, match="Declare once"):
            call()
    now = "2026-01-01T00:00:00+00:00"
    for cursor in "yesterday", now, f"{now} ", f"{now} a\0", "0001-01-01T00:00:00+23:00 ann":
        with pytest.raises(InvalidMoment):
            app.actors(KEY, before=cursor)
    assert app.actors(KEY, before="2026-01-01T00:00:00 ann") == []
    with pytest.raises(ValueError, match="limit"):
        app.actors(KEY, limit=0)
