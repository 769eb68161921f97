"""A like of somebody, compared with an increment, and with what one writes by hand."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from itertools import count

from django.db import transaction
from django.db.models import F

from benchmarks.capacity.meter import Meter
from benchmarks.cases.cached import client
from benchmarks.cases.cells import BOTH, SLICE, spending
from benchmarks.harness import Action, Pair, Stored, Work, adds_up, expect
from benchmarks.inspection import increment, value
from benchmarks.models import Liked, NaiveCounter
from django_counters.contrib.likes.models import CounterActor
from django_counters.models import Counter
from example_project.scratch import tables

_numbers = count()


@contextmanager
def _beside(mine: Action, stored: Stored, theirs: Action, kept: Stored) -> Iterator[Pair]:
    """A way to like, and another one."""
    with client() as server:
        meter = Meter(server)
        subject, reference = (spending(meter, way, SLICE, 1, *BOTH) for way in (mine, theirs))
        yield Pair(subject, reference, adds_up(stored, kept))


def _liked(key: str) -> int:
    """As many as there are rows."""
    likes = Counter.objects.value(key)
    expect("rows of actors", CounterActor.objects.filter(key=key).count(), likes)
    return likes


def _like(key: str) -> Action:
    """Somebody else likes it each time."""
    actors = count()
    return lambda: Counter.objects.increment(key, who=next(actors))


@contextmanager
def beside_increment() -> Iterator[Pair]:
    """An increment that asks for nobody."""
    mine, theirs = f"liked:{next(_numbers)}", f"views:likes{next(_numbers)}"
    like = _like(mine)
    like()
    increment(theirs)
    with _beside(like, partial(_liked, mine), partial(increment, theirs), value(theirs)) as pair:
        yield pair


@contextmanager
def again() -> Iterator[Pair]:
    """Somebody who likes it already does it again, which changes nothing."""
    mine, theirs = f"liked:{next(_numbers)}", f"views:likes{next(_numbers)}"
    like = partial(Counter.objects.increment, mine, who="ann")
    like()
    increment(theirs)
    with client() as server:
        meter = Meter(server)
        ways = like, partial(increment, theirs)
        subject, reference = (spending(meter, way, SLICE, 1, *BOTH) for way in ways)

        def verify(_: int, calls: int) -> None:
            expect("likes", _liked(mine), 1)
            expect("increments", Counter.objects.value(theirs), calls + 1)

        yield Pair(subject, reference, verify)


@contextmanager
def beside_rows() -> Iterator[Pair]:
    """A row for each like, and a number beside them."""
    mine, theirs = f"liked:{next(_numbers)}", f"naive{next(_numbers)}"
    like, actors = _like(mine), count()
    like()
    NaiveCounter.objects.create(key=theirs)

    def by_hand() -> None:
        with transaction.atomic():
            _, made = Liked.objects.get_or_create(key=theirs, actor=str(next(actors)))
            if made:
                NaiveCounter.objects.filter(key=theirs).update(value=F("value") + 1)

    with tables(Liked):
        by_hand()
        kept = Liked.objects.filter(key=theirs).count
        with _beside(like, partial(_liked, mine), by_hand, kept) as pair:
            yield pair


CASES: Mapping[str, Work] = {
    "likes": Work(beside_increment),
    "likes-again": Work(again),
    "likes-naive": Work(beside_rows),
}
