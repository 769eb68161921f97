"""What processes do on MySQL: whatever could deadlock there, or be folded too early."""

from __future__ import annotations

import random
import time

from django.db import OperationalError, connection, transaction

from django_counters.exceptions import InsufficientCount
from django_counters.models import Counter, CounterDelta
from django_counters.stores.sql.dialects import dialect_of
from django_counters.testing import override_counters
from django_counters.upkeep.rollup import rollup
from tests.concurrency.book import Book

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


def append_late(number: int, times: int, book: Book, locked: bool) -> int:
    """Append in transactions that end late, or roll up until all have; how much was committed.

    ``locked``: whether those who append hold their epoch, as they do.
    """
    if not locked:
        appends = dialect_of("default").ledger.appends
        assert " LOCK IN SHARE MODE" in appends.add
        appends.add = appends.add.replace(" LOCK IN SHARE MODE", "")
    if number < ROLLERS:
        while not all(book.ended[ROLLERS:]):
            rollup()
        return 0
    try:
        return sum(_appended(random.Random(number), turn) for turn in range(times))
    finally:
        book.ended[number] = 1


def _appended(chance: random.Random, turn: int) -> int:
    amounts = [chance.randint(1, 99) for _ in range(chance.randint(1, 3))]
    with transaction.atomic():
        for by in amounts:
            CounterDelta.objects.append("a", by)
            # Rollups come meanwhile.
            time.sleep(chance.random() * 0.02)
        transaction.set_rollback(turn % 7 == 3)
    return 0 if turn % 7 == 3 else sum(amounts)
