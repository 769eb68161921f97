"""Counters of the exact strategy, compared with other ways of counting on the same database.

All but the cases of writers run in one process, in autocommit, through Django's connection as it
is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import cycle
from typing import Any

from django.db import connection, transaction
from django.db.models import F
from django.test.utils import CaptureQueriesContext

from benchmarks.harness import (
    Pair,
    Work,
    WrongSum,
    adds_up,
    expect,
    lasting,
    loop,
    loops,
    remain,
)
from benchmarks.inspection import increment, statement_of, value
from benchmarks.models import NaiveCounter, Post
from benchmarks.team import processes
from django_counters.models import Counter
from django_counters.querysets import CounterQuerySet

WRITERS = 12
SLICE = 100  # calls of one slice
STOCK = 10**9


@contextmanager
def _statement() -> Iterator[Pair]:
    key = "views:statement"
    sql, params = statement_of(partial(increment, key))

    def plain() -> None:
        with connection.cursor() as cursor:
            cursor.execute(sql, params)
            cursor.fetchall()

    def verify(mine: int, theirs: int) -> None:
        expect(key, Counter.objects.value(key), 1 + mine + theirs)

    yield loops(partial(increment, key), plain, verify)


@contextmanager
def updating() -> Iterator[Pair]:
    """One caller, and an update of a row that is there; it returns no value."""
    mine, theirs = "views:increment", "views:update"
    Counter.objects.increment_many({mine: 1, theirs: 1})
    verify = adds_up(value(mine), value(theirs))
    yield loops(partial(increment, mine), partial(update_one, theirs), verify)


def save_one(key: str) -> None:
    """The same as one writes it without a library, step by step: `lock_one` has a query less."""
    with transaction.atomic():
        NaiveCounter.objects.get_or_create(key=key)
        row = NaiveCounter.objects.select_for_update().get(key=key)
        row.value += 1
        row.save()


def lock_one(key: str) -> None:
    """The same with the row found and locked by one query, once it is there."""
    with transaction.atomic():
        row, _ = NaiveCounter.objects.select_for_update().get_or_create(key=key)
        row.value += 1
        row.save()


def update_one(key: str) -> None:
    """The same by one statement, for a row that is there; it returns no value."""
    Counter.objects.filter(key=key).update(value=F("value") + 1)


def naive_value(key: str) -> int:
    """What the naive way has counted."""
    return sum(NaiveCounter.objects.filter(key=key).values_list("value", flat=True))


@contextmanager
def writing(
    theirs: Callable[[str], None], stored: Callable[[str], int], seconds: float
) -> Iterator[Pair]:
    """The library beside rows of a table of the naive way, or updates of rows of its own."""
    names = f"views:shared:{theirs.__name__}", f"views:shared:{theirs.__name__}:reference"
    Counter.objects.increment_many(dict.fromkeys(names, 1))
    verify = adds_up(value(names[0]), partial(stored, names[1]))
    with processes(WRITERS) as team:
        ways = partial(increment, names[0]), partial(theirs, names[1])
        mine, reference = (team.side(way, seconds) for way in ways)
        yield Pair(mine, reference, verify)


def _sum(keys: Sequence[str]) -> int:
    return sum(Counter.objects.values_of(keys).values())


@contextmanager
def _many() -> Iterator[Pair]:
    deltas = {f"votes:{number}": 1 for number in range(1000)}
    Counter.objects.increment_many(deltas)
    keys = cycle(deltas)

    def verify(subject: int, reference: int) -> None:
        expect("the sum of all keys", _sum(list(deltas)), len(deltas) + subject + reference)

    many = loop(lambda: Counter.objects.increment_many(deltas), 2, len(deltas))
    yield Pair(many, loop(lambda: increment(next(keys)), SLICE), verify)


@contextmanager
def _values() -> Iterator[Pair]:
    deltas = {f"read:{number}": number for number in range(1, 501)}
    Counter.objects.increment_many(deltas)
    keys = list(deltas)
    with CaptureQueriesContext(connection) as queries:
        found = Counter.objects.values_of(keys)
    if found != deltas:
        raise WrongSum("values_of does not return what was counted")
    expect("the queries of values_of", len(queries), 1)

    def one_by_one() -> int:
        return sum(Counter.objects.value(key) for key in keys)

    yield Pair(
        loop(lambda: Counter.objects.values_of(keys), 5, len(keys)),
        loop(one_by_one, 1, len(keys)),
        remain((one_by_one, sum(deltas.values()))),
    )


@contextmanager
def _floor() -> Iterator[Pair]:
    sold, seen = "stock:lamp", "views:lamp"
    Counter.objects.increment_many({sold: STOCK, seen: 1})
    verify = adds_up(lambda: -Counter.objects.value(sold), value(seen))
    yield loops(lambda: Counter.objects.decrement(sold), partial(increment, seen), verify)


@contextmanager
def _field() -> Iterator[Pair]:
    mine, theirs = (Post.objects.create(title=title) for title in ("increment", "update"))
    post: Any = mine

    def stored(pk: int) -> int:
        return int(Post.objects.values_list("views", flat=True).get(pk=pk))

    def update() -> object:
        return Post.objects.filter(pk=theirs.pk).update(views=F("views") + 1)

    def increment() -> None:
        post.views.increment()

    yield loops(increment, update, adds_up(partial(stored, mine.pk), partial(stored, theirs.pk)))


@contextmanager
def _queryset() -> Iterator[Pair]:
    """A column of many records at once, or of one after the other."""
    posts = Post.objects.bulk_create(Post(title="queryset") for _ in range(1000))
    chosen: CounterQuerySet[Post] = CounterQuerySet(Post).filter(title="queryset")
    records = cycle(posts)

    def verify(subject: int, reference: int) -> None:
        found = sum(chosen.values_list("views", flat=True))
        expect("the sum of all records", found, subject + reference)

    def one() -> None:
        post: Any = next(records)
        post.views.increment()

    many = loop(lambda: chosen.increment(views=1), 2, len(posts))
    yield Pair(many, loop(one, SLICE), verify)


CASES: Mapping[str, Work] = {
    "statement": Work(_statement),
    "update": Work(updating),
    "writers": lasting(partial(writing, save_one, naive_value)),
    "writers-locked": lasting(partial(writing, lock_one, naive_value)),
    "many": Work(_many),
    "values": Work(_values, slices=4),
    "floor": Work(_floor),
    "field": Work(_field),
    "queryset": Work(_queryset),
}

# Each call commits, and waits for the disk.
COMMITS: Mapping[str, Work] = {
    "update-durable": Work(updating),
    "f-writers": lasting(partial(writing, update_one, Counter.objects.value)),
}
