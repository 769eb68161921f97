"""Whatever counts may say whose it is: each way is checked alone, in sync and async code."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from asgiref.sync import async_to_sync

from django_counters import clock
from django_counters.contrib import series, uniques
from django_counters.contrib.uniques import CounterMember, CounterUnique
from django_counters.errors import InvalidActor
from django_counters.models import Counter, CounterDelta, CounterShard, SlottedCounter
from django_counters.testing import override_counters
from django_counters.tokens import mint
from tests.series.cells import land
from tests.testapp.models import Talk

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("cached")]

KEY = "hits:a"
FIELDS = ("seats", "claps", "views")


def _of_field(name: str) -> Callable[..., Any]:
    return lambda talk, **said: getattr(talk, name).increment(**said)


def _of_field_async(name: str) -> Callable[..., Any]:
    return lambda talk, **said: async_to_sync(getattr(talk, name).aincrement)(**said)


def _collected(talk: Talk, **said: Any) -> None:
    with Counter.objects.collect():
        Counter.objects.increment(KEY, **said)
        talk.views.increment(**said)


async def _acollected(**said: Any) -> None:
    async with Counter.objects.acollect():
        await Counter.objects.aincrement(KEY, **said)


# What has to count, and the counters that it counts in.
WAYS: dict[str, tuple[Callable[..., Any], set[str]]] = {
    **{f"field {name}": (_of_field(name), {name}) for name in FIELDS},
    **{f"field {name}, async": (_of_field_async(name), {name}) for name in FIELDS},
    "key": (lambda talk, **said: Counter.objects.increment(KEY, **said), {KEY}),
    "key, async": (
        lambda talk, **said: async_to_sync(Counter.objects.aincrement)(KEY, **said),
        {KEY},
    ),
    "token": (
        lambda talk, **said: Counter.objects.increment(KEY, token=mint(clock.utc()), **said),
        {KEY},
    ),
    "many": (lambda talk, **said: Counter.objects.increment_many({KEY: 2}, **said), {KEY}),
    "many, async": (
        lambda talk, **said: async_to_sync(Counter.objects.aincrement_many)({KEY: 2}, **said),
        {KEY},
    ),
    "many, once": (
        lambda talk, **said: Counter.objects.increment_many({KEY: 2}, token="one", **said),
        {KEY},
    ),
    "collected": (_collected, {KEY, "views"}),
    "collected, async": (lambda talk, **said: async_to_sync(_acollected)(**said), {KEY}),
    "slots": (
        lambda talk, **said: SlottedCounter.objects.increment(talk, "claps", **said),
        {"claps"},
    ),
    "slots of an exact field": (
        lambda talk, **said: SlottedCounter.objects.increment(talk, "seats", **said),
        {"seats"},
    ),
    "slots, async": (
        lambda talk, **said: async_to_sync(SlottedCounter.objects.aincrement)(
            talk, "claps", **said
        ),
        {"claps"},
    ),
    "queryset": (
        lambda talk, **said: Talk.objects.increment(seats=1, claps=1, views=1, **said),
        {*FIELDS},
    ),
    "queryset, async": (
        lambda talk, **said: async_to_sync(Talk.objects.all().aincrement)(
            seats=1, claps=1, views=1, **said
        ),
        {*FIELDS},
    ),
    "rows": (lambda talk, **said: Counter.objects.filter(key=KEY).increment(**said), {KEY}),
    "rows, async": (
        lambda talk, **said: async_to_sync(Counter.objects.filter(key=KEY).aincrement)(**said),
        {KEY},
    ),
    "shards": (lambda talk, **said: CounterShard.objects.increment(KEY, **said), {KEY}),
    "shards, async": (
        lambda talk, **said: async_to_sync(CounterShard.objects.aincrement)(KEY, **said),
        {KEY},
    ),
    "entry": (lambda talk, **said: CounterDelta.objects.append(KEY, 1, **said), {KEY}),
    "entry, async": (
        lambda talk, **said: async_to_sync(CounterDelta.objects.aappend)(KEY, 1, **said),
        {KEY},
    ),
    "entries": (lambda talk, **said: CounterDelta.objects.append_many([(KEY, 1)], **said), {KEY}),
    "entries with tokens": (
        lambda talk, **said: CounterDelta.objects.append_many(
            [(KEY, 1, mint(clock.utc()))], **said
        ),
        {KEY},
    ),
    "entries, async": (
        lambda talk, **said: async_to_sync(CounterDelta.objects.aappend_many)([(KEY, 1)], **said),
        {KEY},
    ),
}


@pytest.fixture(autouse=True)
def talk() -> Iterator[Talk]:
    with override_counters(hits={"UNIQUE": ["day"]}):
        Counter.objects.create(key=KEY)
        yield Talk.objects.create()


def seen(talk: Talk) -> dict[str, int]:
    """How many distinct actors each counter has had."""
    land()
    found = {KEY: uniques.count(series.of(KEY).per("day").last(1))}
    for name in FIELDS:
        found[name] = uniques.count(series.of(getattr(talk, name)).per("day").last(1))
    return {name: int(number) for name, number in found.items() if number}


@pytest.mark.parametrize("way", WAYS)
def test_each_of_them_is_counted_once(talk: Talk, way: str) -> None:
    count, counters = WAYS[way]
    count(talk, who="ann")
    assert seen(talk) == dict.fromkeys(counters, 1)
    if way != "many, once":
        count(talk, who="ann")
        count(talk, who="ben")
        assert seen(talk) == dict.fromkeys(counters, 2)


@pytest.mark.parametrize("way", WAYS)
def test_nobody_changes_nothing(talk: Talk, way: str) -> None:
    count, _ = WAYS[way]
    with pytest.raises(InvalidActor):
        count(talk, who="")
    land()
    assert not CounterMember.objects.exists()
    assert not CounterUnique.objects.exists()
    values = [getattr(talk, name).value() for name in FIELDS]
    assert [*values, Counter.objects.value(KEY)] == [0, 0, 0, 0]
