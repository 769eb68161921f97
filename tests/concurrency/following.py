"""Writers that commit late and out of order, rollups, and readers who follow the ledger."""

from __future__ import annotations

import random
import time
from typing import Any

from django.db import transaction

from django_counters.models import Counter, CounterDelta, CounterPosition
from django_counters.upkeep import rollup
from tests.concurrency.book import Book
from tests.settling import let_others_end

WRITERS, ROLLERS, READERS = 5, 1, 2
CROWD = WRITERS + ROLLERS + READERS


def among_others(number: int, times: int, book: Book) -> int:
    """Be a writer, one who rolls up, or a reader; how many entries a reader has handled."""
    if number < WRITERS:
        _write(number, times, book)
    elif number < WRITERS + ROLLERS:
        while not all(book.ended):
            rollup()
    else:
        return _read(number, book)
    return 0


def _write(number: int, times: int, book: Book) -> None:
    chance = random.Random(number)
    try:
        for turn in range(times):
            with transaction.atomic():
                for _ in range(chance.randint(1, 3)):
                    CounterDelta.objects.append(f"k:{chance.randrange(5)}", 1)
                # Others begin later and commit earlier meanwhile.
                time.sleep(chance.random() * 0.02)
                transaction.set_rollback(turn % 7 == 3)
    finally:
        book.ended[number] = 1


def _read(number: int, book: Book) -> int:
    """Handle pages, and keep the position with what is done; now and then, die in between."""
    chance, handled = random.Random(number), 0
    while True:
        ended = all(book.ended[:WRITERS])
        if ended:
            let_others_end()
        done, more = _handle(chance)
        handled += done
        if ended and not more:
            return handled


def _handle(chance: random.Random) -> tuple[int, bool]:
    with transaction.atomic():
        rows: Any = CounterPosition._base_manager.select_for_update()
        reader = rows.get(source="follower")
        page = CounterDelta.objects.since(reader.position, most=chance.randint(1, 20))
        # A key that is there already is an error: nothing is handled twice.
        seen = [Counter(key=f"seen:{entry.token}", value=entry.delta) for entry in page]
        Counter.objects.bulk_create(seen)
        rows.filter(source="follower").update(position=page.position)
        died = chance.random() < 0.2
        transaction.set_rollback(died)
    return 0 if died else len(page), bool(page)
