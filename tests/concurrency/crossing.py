"""What processes do on MySQL: whatever could deadlock there, or be folded too early."""

from __future__ import annotations

import random

from django.db import OperationalError, connection

from django_counters.errors import InsufficientCount
from django_counters.models import Counter
from django_counters.testing import override_counters

DEADLOCK = 1213
KEYS = [f"k:{number}" for number in range(20)]
ROLLERS, WRITERS = 2, 6
CROWD = ROLLERS + WRITERS


def batches(number: int, times: int) -> dict[str, int]:
    """Increment five of twenty keys at once, again and again; by how much each."""
    chance, added = random.Random(number), dict.fromkeys(KEYS, 0)
    for _ in range(times):
        deltas = {key: chance.randint(1, 9) for key in chance.sample(KEYS, 5)}
        Counter.objects.increment_many(deltas)
        for key, by in deltas.items():
            added[key] += by
    return added


def sell(number: int, level: str) -> list[int]:
    """Take one after the other until nothing is left; what was left each time."""
    with connection.cursor() as cursor:
        cursor.execute(f"SET SESSION TRANSACTION ISOLATION LEVEL {level}")
    left: list[int] = []
    with override_counters(stock={"FLOOR": 0}):
        while True:
            try:
                left.append(int(Counter.objects.decrement("stock:a").value or 0))
            except InsufficientCount:
                return left
            except OperationalError as error:
                # In REPEATABLE READ, which a check refuses, it holds what it looks at.
                if level == "READ COMMITTED" or not error.args[0] == DEADLOCK:
                    raise
