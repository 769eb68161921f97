"""What the processes of a crowd do inside a collector."""

from __future__ import annotations

import random
from collections.abc import Mapping

from django.db import transaction

# Three policies of one strategy, so that their keys have to be sorted together.
NAMESPACES: Mapping[str, Mapping[str, object]] = {
    "left": {"STRATEGY": "exact"},
    "right": {"STRATEGY": "exact", "CEILING": 10**9},
}
KEYS = [
    *(f"left:{number}" for number in range(7)),
    *(f"plain:{number}" for number in range(7)),
    *(f"right:{number}" for number in range(6)),
]


def collect_shared(number: int, transactions: int, size: int) -> dict[str, int]:
    """Count ``size`` keys a transaction, in random order, and say what was added."""
    from django_counters.models import Counter
    from django_counters.testing import override_counters

    chance = random.Random(number)
    added = dict.fromkeys(KEYS, 0)
    with override_counters(**NAMESPACES):
        for turn in range(transactions):
            with transaction.atomic(), Counter.objects.collect():
                for key in chance.sample(KEYS, size):
                    by = -chance.randint(1, 9)
                    Counter.objects.increment(key, by)
                    added[key] += by
            if turn % 10 == 0:
                added[_undo(chance.choice(KEYS))] += 1
    return added


def _undo(key: str) -> str:
    """A block in which one increment stays, and the one in the savepoint goes."""
    from django_counters.models import Counter

    with Counter.objects.collect():
        Counter.objects.decrement(key, 2)
        with transaction.atomic():
            Counter.objects.increment(key, 5)
            transaction.set_rollback(True)
        Counter.objects.increment(key, 3, floor=-(10**9))
    return key
