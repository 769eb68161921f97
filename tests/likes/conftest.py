"""Counters of every kind that an actor counts once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import pytest
from django.db import connection

from django_counters.contrib.likes.liking import Toggled, actors, has, toggle
from django_counters.contrib.likes.models import CounterActor
from django_counters.models import Counter
from django_counters.testing import override_counters
from django_counters.types import Result
from tests.testapp.models import Gem, Note

ONCE: dict[str, Any] = {
    "likes": {"ONCE": True},
    "stars": {"STRATEGY": "sharded", "ONCE": True},
    "claps": {"ONCE": True, "PER": ["day"], "TAGS": {"country": 2}},
    "waves": {"STRATEGY": "sharded", "ONCE": True, "PER": ["day"]},
    "reads": {"ONCE": "30m"},
    "few": {"ONCE": "30m", "CEILING": 1},
    "plain": {},
}


class Likes(NamedTuple):
    """One counter, whatever it is."""

    increment: Callable[..., Result]
    decrement: Callable[..., Result]
    toggle: Callable[..., Toggled]
    has: Callable[..., bool]
    actors: Callable[..., list[Any]]
    value: Callable[[], int]
    rows: Callable[[], int]


def of_key(key: str) -> Likes:
    """A named counter."""
    objects, rows = Counter.objects, CounterActor.objects.filter(key=key)
    return Likes(
        partial(objects.increment, key),
        partial(objects.decrement, key),
        partial(toggle, key),
        partial(has, key),
        partial(actors, key),
        partial(objects.value, key),
        rows.count,
    )


def of_field(model: Any, name: str, pk: Any) -> Likes:
    """A counter of a record, whichever instance has it."""
    one, key = getattr(model, name).of(pk), model._meta.pk.get_db_prep_value(pk, connection)
    rows = CounterActor.objects.filter(key=str(key), measure__name=f"{model._meta.label}.{name}")
    return Likes(
        one.increment,
        one.decrement,
        partial(toggle, one),
        partial(has, one),
        partial(actors, one),
        one.value,
        rows.count,
    )


KINDS = (
    *("named likes", "named stars", "named claps", "named waves"),
    *("note likes", "note stars", "note claps", "note waves", "gem likes", "gem stars"),
)


def made(kind: str) -> Likes:
    """A counter of a kind."""
    place, name = kind.split()
    if place == "named":
        return of_key(f"{name}:page")
    model = Note if place == "note" else Gem
    return of_field(model, name, model.objects.create().pk)


@pytest.fixture(autouse=True)
def _declared() -> Iterator[None]:
    with override_counters(**ONCE):
        yield


@pytest.fixture(params=KINDS)
def likes(request: pytest.FixtureRequest, db: None) -> Likes:
    """A counter of each kind."""
    return made(request.param)
