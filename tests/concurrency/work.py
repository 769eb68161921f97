"""What the processes of a crowd do. Each is told its name, so it stands in a module."""

from __future__ import annotations

import random
from contextlib import nullcontext
from typing import Any

from django.db import transaction
from django.db.models import F

from django_counters.errors import InsufficientCount
from django_counters.models import Counter
from django_counters.testing import override_counters
from tests.testapp.models import Post


def increment_one(number: int, times: int) -> None:
    """Increment one key, once a statement."""
    for _ in range(times):
        Counter.objects.increment("hot")


def create_and_change(number: int, rounds: int) -> None:
    """Meet at keys that nobody has created yet, in carts with floors and in querysets."""
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
    "left": {},
    "right": {"FLOOR": -(10**9)},
}
LIKES = [f"likes:{n}" for n in range(20)]
EXACT = [f"{name}:{n}" for name in ("left", "plain", "right", "stock") for n in range(5)]
SPREAD = [f"{name}:{n}" for name in ("likes", "four", "stock", "plain") for n in range(5)]
# How five keys are counted, and of which; three policies of one strategy are sorted together.
WAYS = {"exact": EXACT, "spread": SPREAD, "singly": LIKES, "collected": EXACT}


def transactions_of_five(number: int, times: int, way: str) -> dict[str, int]:
    """Touch five keys in random order, in one transaction, and say what was added."""
    chance = random.Random(number)
    keys = WAYS[way]
    added = dict.fromkeys(keys, 0)
    with override_counters(**MIXED):
        for _ in range(times):
            deltas = {key: chance.randint(1, 9) for key in chance.sample(keys, 5)}
            with transaction.atomic():
                _count(deltas, way)
            for key, by in deltas.items():
                added[key] += by
    return added


def _count(deltas: dict[str, int], way: str) -> None:
    if way in ("exact", "spread"):
        Counter.objects.increment_many(deltas)
        return
    block: Any = Counter.objects.collect() if way == "collected" else nullcontext()
    with block:
        for key, by in deltas.items():
            Counter.objects.increment(key, by)
