"""Counters of the exact strategy, compared with other ways of counting on the same database.

All but the cases of writers run in one process, in autocommit, through Django's connection as it
is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import cycle
from typing import Any

from django.db import connection, transaction
from django.db.models import F
from django.test.utils import CaptureQueriesContext

from benchmarks.harness import Case, Pair, WrongSum, at_least, at_most, expect, loop
from benchmarks.inspection import holds, statement_of
from benchmarks.models import NaiveCounter, Post
from benchmarks.writers import writers
from django_counters.models import Counter

WRITERS = 12
WRITING = 0.5  # seconds of one slice
BRIEF = 0.2  # the same where time is short
SLICE = 100  # calls of one slice
STOCK = 10**9


@contextmanager
def _statement() -> Iterator[Pair]:
    key = "views:statement"
    sql, params = statement_of(lambda: Counter.objects.increment(key))

    def plain() -> list[tuple[Any, ...]]:
        with connection.cursor() as cursor:
            cursor.execute(sql, params)
            rows: list[tuple[Any, ...]] = cursor.fetchall()
            return rows

    yield Pair(
        loop(lambda: Counter.objects.increment(key), SLICE),
        loop(plain, SLICE),
        lambda mine, theirs: holds(key, 1 + mine + theirs),
    )


@contextmanager
def updating() -> Iterator[Pair]:
    """One caller, and an update of a row that is there; it returns no value."""
    mine, theirs = "views:increment", "views:update"
    Counter.objects.increment_many({mine: 1, theirs: 1})

    def verify(subject: int, reference: int) -> None:
        holds(mine, 1 + subject)
        holds(theirs, 1 + reference)

    yield Pair(
        loop(lambda: Counter.objects.increment(mine), SLICE),
        loop(partial(update_one, theirs), SLICE),
        verify,
    )


def increment_one(key: str) -> None:
    """What each of the writers does."""
    Counter.objects.increment(key)


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


@contextmanager
def _writers(naive: Callable[[str], None], seconds: float) -> Iterator[Pair]:
    """The library beside rows of a table of the naive way."""
    key = f"views:shared:{naive.__name__}"

    def verify(subject: int, reference: int) -> None:
        holds(key, subject)
        expect("the naive counter", NaiveCounter.objects.get(key=key).value, reference)

    with writers(WRITERS, str(connection.settings_dict["NAME"])) as team:
        mine, theirs = partial(increment_one, key), partial(naive, key)
        yield Pair(team.side(mine, seconds), team.side(theirs, seconds), verify)


@contextmanager
def _updaters(seconds: float) -> Iterator[Pair]:
    """The library beside updates of a row of the same table."""
    mine, theirs = "views:shared:mine", "views:shared:theirs"
    Counter.objects.increment_many({mine: 1, theirs: 1})

    def verify(subject: int, reference: int) -> None:
        holds(mine, 1 + subject)
        holds(theirs, 1 + reference)

    with writers(WRITERS, str(connection.settings_dict["NAME"])) as team:
        yield Pair(
            team.side(partial(increment_one, mine), seconds),
            team.side(partial(update_one, theirs), seconds),
            verify,
        )


@contextmanager
def _many() -> Iterator[Pair]:
    deltas = {f"votes:{number}": 1 for number in range(1000)}
    Counter.objects.increment_many(deltas)
    keys = cycle(deltas)

    def verify(subject: int, reference: int) -> None:
        stored = sum(Counter.objects.values_of(deltas).values())
        expect("the sum of all keys", stored, len(deltas) + subject + reference)

    yield Pair(
        loop(lambda: Counter.objects.increment_many(deltas), 2, len(deltas)),
        loop(lambda: Counter.objects.increment(next(keys)), SLICE),
        verify,
    )


@contextmanager
def _values() -> Iterator[Pair]:
    deltas = {f"read:{number}": number for number in range(1, 501)}
    Counter.objects.increment_many(deltas)
    keys = list(deltas)
    with CaptureQueriesContext(connection) as queries:
        found = Counter.objects.values_of(keys)
    if found != deltas:
        raise WrongSum("values_of does not return what was counted")
    if len(queries) != 1:
        raise WrongSum(f"values_of of {len(keys)} keys took {len(queries)} queries, not one")

    def one_by_one() -> list[int]:
        return [Counter.objects.value(key) for key in keys]

    yield Pair(
        loop(lambda: Counter.objects.values_of(keys), 5, len(keys)),
        loop(one_by_one, 1, len(keys)),
        lambda *_: expect("the sum of all keys", sum(one_by_one()), sum(deltas.values())),
    )


@contextmanager
def _floor() -> Iterator[Pair]:
    sold, seen = "stock:lamp", "views:lamp"
    Counter.objects.increment_many({sold: STOCK, seen: 1})

    def verify(subject: int, reference: int) -> None:
        holds(sold, STOCK - subject)
        holds(seen, 1 + reference)

    yield Pair(
        loop(lambda: Counter.objects.decrement(sold), SLICE),
        loop(lambda: Counter.objects.increment(seen), SLICE),
        verify,
    )


@contextmanager
def _field() -> Iterator[Pair]:
    mine, theirs = (Post.objects.create(title=title) for title in ("increment", "update"))
    post: Any = mine

    def update() -> object:
        return Post.objects.filter(pk=theirs.pk).update(views=F("views") + 1)

    def verify(subject: int, reference: int) -> None:
        for post, counted in ((mine, subject), (theirs, reference)):
            post.refresh_from_db()
            expect(post.title, post.views, counted)

    def increment() -> object:
        return post.views.increment()

    yield Pair(loop(increment, SLICE), loop(update, SLICE), verify)


TOGETHER = f"increment by {WRITERS} processes, one row"

CASES: Sequence[Case] = (
    Case("statement", "increment", "the same statement on a cursor", at_least(0.8), _statement),
    Case("update", "increment", "filter().update(F() + 1)", at_least(2.2), updating),
    Case(
        "writers",
        TOGETHER,
        "get_or_create, select_for_update, save",
        at_least(8),
        partial(_writers, save_one, WRITING),
        slices=2,
        less=partial(_writers, save_one, BRIEF),
    ),
    Case(
        "writers-locked",
        TOGETHER,
        "select_for_update().get_or_create(), save",
        None,
        partial(_writers, lock_one, WRITING),
        slices=2,
        less=partial(_writers, lock_one, BRIEF),
    ),
    Case(
        "writers-update",
        f"{TOGETHER}, returns the value",
        "filter().update(F() + 1), returns nothing",
        None,
        partial(_updaters, WRITING),
        slices=2,
        less=partial(_updaters, BRIEF),
    ),
    Case("many", "increment_many of 1,000 keys, per key", "increment", at_most(0.06), _many),
    Case(
        "values",
        "values_of 500 keys, per key",
        "value, 500 times",
        at_least(20),
        _values,
        slices=4,
    ),
    Case("floor", "decrement with a floor", "increment", at_least(0.9), _floor),
    Case("field", "post.views.increment()", "filter().update(F() + 1)", at_least(1.6), _field),
)
