"""What the processes of a crowd do. Each imports this afresh, so it stands in a module."""

from __future__ import annotations

import random

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
