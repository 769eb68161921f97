"""A change by zero, as of ``F("views") + 0``: it changes nothing, wherever a change may be."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.db import transaction
from django.test import override_settings

from django_counters.clock import utc
from django_counters.contrib import buffers, holds
from django_counters.contrib.likes.models import CounterActor
from django_counters.contrib.series.models import CounterCell, CounterOccurrence
from django_counters.errors import CounterError, InvalidDelta, RecordMissing, TokenConflict
from django_counters.models import (
    Counter,
    CounterDelta,
    CounterShard,
    CounterToken,
    SlottedCounter,
)
from django_counters.querysets import CounterQuerySet
from django_counters.signals import batch_applied
from django_counters.tokens import mint
from django_counters.types import Counted, Unknown
from tests.testapp.models import Account, Article, Note, Post, Product, Site, Song

pytestmark = pytest.mark.django_db(transaction=True)
TABLES: tuple[Any, ...] = (
    Counter,
    CounterShard,
    CounterDelta,
    CounterCell,
    CounterActor,
    CounterOccurrence,
    SlottedCounter,
)


@pytest.fixture(autouse=True)
def declared() -> Iterator[None]:
    counters = {
        "stock": {"FLOOR": 0, "PER": ["day"], "OCCURRENCES": ["day"]},
        "spread": {"STRATEGY": "sharded"},
        "orders": {"STRATEGY": "ledger"},
        "views": {"STRATEGY": "cached"},
        "likes": {"ONCE": True},
        "memory": {"BUFFER": {"seconds": 60}},
    }
    with override_settings(COUNTERS=counters):
        yield


def rows() -> list[Any]:
    return [list(table.objects.order_by("pk").values_list()) for table in TABLES]


@contextmanager
def nothing_happens() -> Iterator[None]:
    """No row is written and no signal is sent."""
    told: list[Any] = []

    def hear(**given: Any) -> None:
        told.append(given)

    before = rows()
    batch_applied.connect(hear)
    try:
        yield
    finally:
        batch_applied.disconnect(hear)
    assert (rows(), told) == (before, [])


NAMED = ["plain:a", "stock:a", "spread:a", "orders:a"]


@pytest.mark.parametrize("key", NAMED)
def test_a_named_counter(key: str) -> None:
    count = Counter.objects
    with nothing_happens():
        assert count.increment(key, 0) == 0
    count.increment(key, 5)
    with nothing_happens():
        for value in (
            count.increment(key, 0),
            count.decrement(key, 0),
            async_to_sync(count.aincrement)(key, 0),
            count.increment_many({key: 0})[key],
            count.increment(key, 0, floor=7) if key[:2] == "st" else count.increment(key, 0),
        ):
            assert isinstance(value, Counted)
            assert value == 5
        assert count.filter(key=key).increment(0) == count.filter(key=key).count()
    with count.collect():
        count.increment("plain:a", 2)
        assert count.increment("plain:a", 0) == (7 if key == "plain:a" else 2)


WRONG = [
    {"tags": {"nothing": "a"}},
    {"at": utc() + timedelta(days=1)},
    {"at": "yesterday"},
    {"who": ""},
    {"who": 1.5},
]


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("key", [*NAMED, "views:a", "memory:a", "likes:a"])
def test_arguments_are_checked(key: str, wrong: dict[str, Any]) -> None:
    """A call with a wrong argument is refused as it is with any other amount."""
    count = Counter.objects
    given = {"who": "ann", **wrong} if key == "likes:a" else wrong
    with pytest.raises(CounterError) as one:
        count.increment(key, 1, **given)
    for call in (
        lambda: count.increment(key, 0, **given),
        lambda: count.decrement(key, 0, **given),
        lambda: count.increment(key, 0, token="t", **given),
        lambda: async_to_sync(count.aincrement)(key, 0, **given),
        lambda: count.increment_many({key: 0}, **given),
    ):
        with nothing_happens(), pytest.raises(type(one.value)):
            call()


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize(
    ("model", "name"),
    [(Post, "views"), (Product, "stock"), (Song, "plays"), (Site, "visits"), (Note, "likes")],
)
def test_arguments_of_a_field_are_checked(model: Any, name: str, wrong: dict[str, Any]) -> None:
    field = getattr(model.objects.create(), name)
    given = {"who": "ann", **wrong} if name == "likes" else wrong
    with pytest.raises(CounterError) as one:
        field.increment(1, **given)
    calls: list[Callable[[], object]] = [
        lambda: field.increment(0, **given),
        lambda: field.decrement(0, token="t", **given),
    ]
    if name != "likes":
        rows: Any = CounterQuerySet(model)
        calls.append(lambda: rows.increment(**{name: 0}, **given))
    for call in calls:
        with nothing_happens(), pytest.raises(type(one.value)):
            call()


def test_some_of_many() -> None:
    for key in NAMED:
        Counter.objects.increment(key, 5)
    given = {"stock:a": 0, "plain:a": 2, "orders:a": 0, "spread:a": 1}
    for many in Counter.objects.increment_many, async_to_sync(Counter.objects.aincrement_many):
        found = many(given)
        assert (found["stock:a"], found["orders:a"]) == (5, 5)
    assert found == {"stock:a": 5, "orders:a": 5, "plain:a": 9, "spread:a": 7}


def test_a_token_is_used_up() -> None:
    for key in NAMED:
        Counter.objects.increment(key, 5)
        for token in (f"once-{key}", mint(utc())):
            with nothing_happens():
                assert Counter.objects.increment(key, 0, token=token) == 5
            Counter.objects.increment(key)
            with nothing_happens():
                again = Counter.objects.increment(key, 0, token=token)
            assert again.replayed
            for other in (1, -1):
                with pytest.raises(TokenConflict):
                    Counter.objects.increment(key, other, token=token)
            Counter.objects.decrement(key)
    assert CounterToken.objects.count() == 2 * len(NAMED)
    many = {"plain:a": 1, "stock:a": 0}
    assert Counter.objects.increment_many(many, token="cart") == {"plain:a": 6, "stock:a": 5}
    assert Counter.objects.increment_many(many, token="cart").replayed
    with pytest.raises(TokenConflict):
        Counter.objects.increment_many({"plain:a": 1}, token="cart")


def test_a_cached_counter() -> None:
    count, token = Counter.objects, mint(utc())
    count.increment("views:a", 5)
    with nothing_happens():
        for value in (
            count.increment("views:a", 0),
            async_to_sync(count.aincrement)("views:a", 0),
            count.increment_many({"views:a": 0})["views:a"],
        ):
            assert isinstance(value, Unknown)
    count.increment("views:a", 0, token=token)
    assert count.increment("views:a", 0, token=token).replayed
    with pytest.raises(TokenConflict):
        count.increment("views:a", 1, token=token)
    assert count.value("views:a") == 5


def test_a_buffer() -> None:
    with nothing_happens():
        assert isinstance(Counter.objects.increment("memory:a", 0), Unknown)
        handle = buffers.handle("memory:a")
        handle.increment(0)
        handle.decrement(0)
    assert Counter.objects.value("memory:a") == 0


def test_a_counter_of_actors() -> None:
    note = Note.objects.create()
    note.likes.increment(who="ann")
    Counter.objects.increment("likes:a", who="ann")
    with nothing_happens():
        assert note.likes.increment(0, who="bob") == 1
        assert note.likes.decrement(0) == 1
        assert Counter.objects.increment("likes:a", 0) == 1


@pytest.mark.parametrize(
    ("model", "name"), [(Post, "views"), (Product, "stock"), (Song, "plays"), (Site, "visits")]
)
def test_a_field(model: Any, name: str) -> None:
    record = model.objects.create()
    getattr(record, name).increment(5)
    stale = model.objects.get()
    getattr(record, name).increment(2)
    with nothing_happens():
        assert getattr(stale, name).increment(0) == 7
        assert getattr(stale, name) == 7
        assert getattr(model, name).of(record.pk).decrement(0) == 7
        assert SlottedCounter.objects.increment(record, "other", 0) == 0
    for token in (mint(utc()), "t"):
        assert getattr(record, name).increment(0, token=token) == 7
        with pytest.raises(TokenConflict):
            getattr(record, name).increment(1, token=token)
    record.delete()
    with pytest.raises(RecordMissing):
        getattr(stale, name).increment(0)


def test_a_cached_field() -> None:
    article = Article.objects.create()
    article.reads.increment(3)
    with nothing_happens():
        assert isinstance(article.reads.increment(0), Unknown)
    assert article.reads == 3


def test_amounts() -> None:
    account = Account.objects.create()
    account.balance.increment(Decimal("2.50"))
    for zero in (0, Decimal(0), Decimal("-0.00")):
        with nothing_happens():
            assert account.balance.increment(zero) == Decimal("2.50")


def test_querysets() -> None:
    songs = [Song.objects.create() for _ in range(2)]
    with nothing_happens():
        assert Song.objects.increment(plays=0) == 2
        assert Song.objects.filter(pk=songs[0].pk).decrement(plays=0, skips=0) == 1
    assert Song.objects.increment(plays=0, skips=1) == 2
    with transaction.atomic():
        assert Song.objects.increment(plays=1, skips=0) == 2
    assert list(Song.objects.with_counts().values_list("plays", "skips")) == [(1, 1), (1, 1)]
    assert SlottedCounter.objects.count() == 2


REFUSED: list[Callable[[], object]] = [
    lambda: CounterDelta.objects.append("orders:a", 0),
    lambda: CounterDelta.objects.append_many([("orders:a", 0)]),
    lambda: holds.hold("stock:a", 0),
    lambda: Counter.objects.adjust("plain:a", by=0, reason="r", actor="ann"),
    lambda: Counter.objects.increment("plain:a", False),
    lambda: Counter.objects.increment("plain:a", 0.0),  # type: ignore[arg-type]
]


@pytest.mark.parametrize("call", REFUSED)
def test_what_is_nothing_without_an_amount(call: Callable[[], object]) -> None:
    with pytest.raises(InvalidDelta):
        call()
