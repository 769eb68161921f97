"""What the processes of a crowd do. Each imports this afresh, so it stands in a module."""

from __future__ import annotations

import random
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from django.db import transaction
from django.db.models import F

KEYS = [f"shared:{number}" for number in range(50)]


def increment_one(number: int, times: int) -> None:
    """Increment one key, once a statement."""
    from django_counters.models import Counter

    for _ in range(times):
        Counter.objects.increment("hot")


def increment_shared(number: int, calls: int, size: int) -> dict[str, int]:
    """Increment many keys a statement, named in random order, and say what was added."""
    from django_counters.models import Counter

    chance = random.Random(number)
    added = dict.fromkeys(KEYS, 0)
    for _ in range(calls):
        deltas = {key: chance.randint(1, 9) for key in chance.sample(KEYS, size)}
        Counter.objects.increment_many(deltas)
        for key, by in deltas.items():
            added[key] += by
    return added


def create_and_change(number: int, rounds: int) -> None:
    """Meet at keys that nobody has created yet, in carts with floors and in querysets."""
    from django_counters.exceptions import InsufficientCount
    from django_counters.models import Counter
    from django_counters.testing import override_counters

    chance = random.Random(number)
    with override_counters(stock={"FLOOR": 0}):
        for turn in range(rounds):
            keys = [f"stock:{turn}:{n}" for n in range(6)]
            chance.shuffle(keys)
            Counter.objects.increment_many(dict.fromkeys(keys, 2))
            try:
                Counter.objects.decrement_many(dict.fromkeys(chance.sample(keys, 4), 1))
            except InsufficientCount as error:
                raise AssertionError("each process put in two and takes one") from error
            for _ in range(3):
                Counter.objects.filter(key__startswith=f"stock:{turn}:").increment(1)


def view_and_save(number: int, pk: int, times: int) -> None:
    """Count views of a post while others save its stale instances in every way."""
    from tests.testapp.models import Post

    post = Post.objects.get(pk=pk)
    for turn in range(times):
        post.views.increment()
        post.title = f"{number}-{turn}"
        match turn % 5:
            case 0:
                post.save()
            case 1:
                post.save(update_fields=["title", "views"])
            case 2:
                Post.objects.bulk_update([post], ["title", "views"])
            case 3:
                Post.objects.update_or_create(pk=pk, defaults={"title": "u", "views": 0})
            case _:
                with transaction.atomic():
                    Post.objects.filter(pk=pk).update(likes=F("likes") + 1)
                    post.save()


MIXED: dict[str, dict[str, Any]] = {
    "likes": {"STRATEGY": "sharded"},
    "four": {"STRATEGY": "sharded", "OPTIONS": {"shards": 4}},
    "stock": {"FLOOR": 0},
}
MIXED_KEYS = [f"{name}:{n}" for name in ("likes", "four", "stock", "plain") for n in range(5)]


@dataclass
class Observed:
    """What a reader saw: a value, what was acknowledged before, and attempted after."""

    acknowledged: int
    value: int
    attempted: int


@dataclass
class Ledger:
    """What each writer has attempted, and what was acknowledged to it: memory that all share.

    Each writes to its own place only, and so needs no lock.
    """

    attempted: Any
    acknowledged: Any
    ended: Any


def spread(
    number: int, kind: str, record: int, times: int, rollups: int, readers: int, ledger: Ledger
) -> list[Observed]:
    """Be a writer, or one of those who roll up or read until all writers have ended."""
    from django_counters.testing import override_counters

    writers = len(ledger.attempted)
    with override_counters(**MIXED):
        if number < writers:
            _write(number, kind, record, times, ledger)
            return []
        if number < writers + rollups:
            return _roll_up(ledger)
        return _observe(kind, record, ledger)


def _write(number: int, kind: str, record: int, times: int, ledger: Ledger) -> None:
    change, _ = _calls(kind, record)
    chance = random.Random(number)
    try:
        for _ in range(times):
            by = chance.randint(1, 3)
            ledger.attempted[number] += by
            change(by)
            ledger.acknowledged[number] += by
    finally:
        ledger.ended[number] = 1


def _calls(kind: str, record: int) -> tuple[Any, Any]:
    """How to count and how to read."""
    from django_counters.models import Counter, SlottedCounter
    from tests.testapp.models import Song

    if kind == "sharded":
        return (
            lambda by: Counter.objects.increment("likes:hot", by),
            lambda: Counter.objects.value("likes:hot"),
        )
    song = Song.objects.get(pk=record)
    if kind == "slotted":
        return song.plays.increment, lambda: Song.objects.with_counts("plays").get(pk=record).plays
    return (
        lambda by: SlottedCounter.objects.increment(song, "downloads", by),
        lambda: SlottedCounter.objects.value(song, "downloads"),
    )


def _roll_up(ledger: Ledger) -> list[Observed]:
    from django_counters.upkeep.rollup import rollup

    while not all(ledger.ended):
        rollup()
    return []


def _observe(kind: str, record: int, ledger: Ledger) -> list[Observed]:
    """Read again and again, and keep what contradicts the promise, and the last of all."""
    _, read = _calls(kind, record)
    wrong: list[Observed] = []
    last = 0
    seen = Observed(0, 0, 0)
    while not all(ledger.ended):
        # In this order: what is acknowledged before a read is in it, what is in it was attempted.
        acknowledged = sum(ledger.acknowledged)
        value = int(read())
        seen = Observed(acknowledged, value, sum(ledger.attempted))
        if not seen.acknowledged <= seen.value <= seen.attempted or value < last:
            wrong.append(seen)
        last = value
    return [*wrong[:10], seen]


def transactions_of_five(number: int, times: int, one_by_one: bool) -> dict[str, int]:
    """Touch five keys in random order, in one transaction, and say what was added."""
    from django_counters.models import Counter
    from django_counters.testing import override_counters

    chance = random.Random(number)
    keys = [f"likes:{n}" for n in range(20)] if one_by_one else MIXED_KEYS
    added = dict.fromkeys(keys, 0)
    with override_counters(**MIXED):
        for _ in range(times):
            deltas = {key: chance.randint(1, 9) for key in chance.sample(keys, 5)}
            with transaction.atomic():
                if one_by_one:
                    for key, by in deltas.items():
                        Counter.objects.increment(key, by)
                else:
                    Counter.objects.increment_many(deltas)
            for key, by in deltas.items():
                added[key] += by
    return added


def old_and_new_code(number: int, times: int, record: int) -> dict[str, int]:
    """Count with the settings before a change or after it, and roll up now and then."""
    from django_counters.models import Counter, SlottedCounter
    from django_counters.testing import override_counters
    from django_counters.upkeep.rollup import rollup
    from tests.testapp.models import Post

    post = Post.objects.get(pk=record)
    chance = random.Random(number)
    is_new = number % 2 == 0
    added = {"likes:a": 0, "likes:b": 0, "field": 0}
    with ExitStack() as stack:
        if is_new:
            stack.enter_context(override_counters(**MIXED))
        for turn in range(times):
            by = chance.choice((-1, 1, 2, 3))
            Counter.objects.increment("likes:a", by)
            Counter.objects.increment_many({"likes:b": by, "likes:a": by})
            if is_new:
                SlottedCounter.objects.increment(post, "likes", by)
            else:
                post.likes.increment(by)
            added = {
                "likes:a": added["likes:a"] + 2 * by,
                **{key: added[key] + by for key in ("likes:b", "field")},
            }
            if number < 2 and turn % 10 == 0:
                rollup()
    return added
