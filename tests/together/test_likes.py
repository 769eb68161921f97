"""Likes of counters with periods, tags and distinct actors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from django_counters.contrib import likes as likes_app
from django_counters.contrib import series, uniques
from django_counters.contrib.likes.models import CounterActor
from django_counters.contrib.series.models import CounterCell
from django_counters.errors import CeilingExceeded, InvalidTags
from django_counters.models import Counter
from django_counters.testing import override_counters
from django_counters.upkeep import verify
from tests.testapp.models import Note
from tests.together.counting import KEY

pytestmark = pytest.mark.django_db
ONCE: dict[str, Any] = {"ONCE": True, "PER": ["day"], "TAGS": {"country": 2}}
STRATEGIES = ("exact", "sharded")


@pytest.fixture(params=STRATEGIES)
def strategy(request: pytest.FixtureRequest) -> Iterator[str]:
    """The strategy of the likes of ``c``."""
    with override_counters(c={"STRATEGY": request.param, **ONCE}):
        yield str(request.param)


def by_country(key: str = KEY) -> dict[str | None, int]:
    found = series.of(key).per("day").last(1).by("country").total()
    return {country: likes for country, likes in found.items() if likes}


def test_a_like_is_in_the_cell_of_its_tag(strategy: str) -> None:
    increment = partial(Counter.objects.increment, KEY)
    assert increment(who="ann", tags={"country": "DE"}) == 1
    assert increment(who="bob", tags={"country": "FR"}) == 2
    # The same person from elsewhere is the same like.
    assert increment(who="ann", tags={"country": "FR"}).replayed
    assert by_country() == {"DE": 1, "FR": 1}
    assert Counter.objects.decrement(KEY, who="ann", tags={"country": "DE"}) == 1
    assert Counter.objects.decrement(KEY, who="ann", tags={"country": "DE"}).replayed
    assert by_country() == {"FR": 1}
    assert Counter.objects.value(KEY) == CounterActor.objects.count() == 1
    assert verify().drifts == []


def test_a_toggle_has_no_tag(strategy: str) -> None:
    for has in (True, False, True):
        assert likes_app.toggle(KEY, "ann").has is has
    assert by_country() == {None: 1}
    assert Counter.objects.value(KEY) == CounterActor.objects.count() == 1


def test_a_like_that_is_refused_is_in_no_cell(strategy: str) -> None:
    with pytest.raises(InvalidTags):
        Counter.objects.increment(KEY, who="ann", tags={"city": "Rome"})
    if strategy == "exact":
        with override_counters(c={**ONCE, "CEILING": 1}):
            Counter.objects.increment(KEY, who="bob", tags={"country": "DE"})
            with pytest.raises(CeilingExceeded):
                Counter.objects.increment(KEY, who="ann", tags={"country": "DE"})
    likes = int(strategy == "exact")
    assert not likes_app.has(KEY, "ann")
    assert (Counter.objects.value(KEY), CounterActor.objects.count()) == (likes, likes)
    assert sum(CounterCell.objects.values_list("value", flat=True)) == likes


FACES: dict[str, Callable[[], Any]] = {
    "named": lambda: Counter.objects,
    "field": lambda: Note.objects.create().claps,
    "slots": lambda: Note.objects.create().waves,
}


@pytest.mark.parametrize("face", FACES)
def test_periods_have_what_counted(strategy: str, face: str) -> None:
    likes, key = FACES[face](), (KEY,) if face == "named" else ()
    for who in "ann", "bob", "ann", "eve":
        likes.increment(*key, who=who)
    for who in "bob", "bob":
        likes.decrement(*key, who=who)
    assert sum(CounterCell.objects.values_list("value", flat=True)) == 2 == likes.value(*key)


def test_distinct_actors_beside_it(strategy: str) -> None:
    """Who has liked on a day stays in the set of that day, also where it is taken back."""
    with override_counters(c={"STRATEGY": strategy, **ONCE, "UNIQUE": ["day"]}):
        for who in "ann", "ann", "bob":
            Counter.objects.increment(KEY, who=who)
        Counter.objects.decrement(KEY, who="ann")
        counts = series.of(KEY).per("day").last(1)
        assert uniques.count(counts) == 2
        assert counts.total() == Counter.objects.value(KEY) == 1
        assert likes_app.toggle(KEY, "eve").has
        assert verify().drifts == []
