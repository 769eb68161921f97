"""Distinct actors under many writers: rollups and landings at once lose nobody and add nobody."""

from __future__ import annotations

import random
from typing import Any

import pytest
from django.db import transaction

from django_counters.cached.flush import flush
from django_counters.contrib import series, uniques
from django_counters.contrib.uniques import CounterMember, CounterUnique
from django_counters.contrib.uniques.sketches import Sketch
from django_counters.models import Counter
from django_counters.testing import override_counters
from django_counters.upkeep import rollup
from tests.concurrency.book import Book
from tests.concurrency.crowd import processes

pytestmark = [pytest.mark.many_writers, pytest.mark.django_db(transaction=True)]
WRITERS, ROLLERS, FLUSHERS = 4, 2, 2
PEOPLE = 60
UNIQUE: dict[str, Any] = {"UNIQUE": ["day"], "TAGS": {"country": 3}}
CACHED = {"STRATEGY": "cached", "ON_REDIS_DOWN": "raise", "OPTIONS": {"timeout": 10}}
NAMESPACES: dict[str, Any] = {
    "stock": {"FLOOR": 0, **UNIQUE},
    "likes": {"STRATEGY": "sharded", **UNIQUE},
    "orders": {"STRATEGY": "ledger", **UNIQUE},
    "views": {**CACHED, **UNIQUE},
}
KEYS = [f"{name}:{number}" for name in NAMESPACES for number in range(2)]


def test_nobody_is_lost() -> None:
    book = Book.of(WRITERS)
    answers = processes(WRITERS + ROLLERS + FLUSHERS, _among_others, 80, book)
    came: dict[str, set[str]] = {key: set() for key in KEYS}
    for answer in answers:
        for key, people in (answer or {}).items():
            came[key] |= set(people)
    with override_counters(**NAMESPACES):
        flush()
        for _ in range(2):
            found = {key: int(uniques.count(series.of(key).per("day").last(2))) for key in KEYS}
            assert found == {key: len(people) for key, people in came.items()}
            rollup()
    assert not CounterMember.objects.exists()
    for kind, body in CounterUnique.objects.values_list("kind", "body"):
        assert Sketch(kind, bytes(body)).is_exact
    assert min(map(len, came.values())) > PEOPLE // 2


def _among_others(number: int, times: int, book: Book) -> dict[str, list[str]] | None:
    """Be a writer, who tells who came, or one who rolls up, or one who lands."""
    # Some count the same counters in Redis, some in the database.
    mixed = {**NAMESPACES, "views": UNIQUE} if number == 1 else NAMESPACES
    with override_counters(**mixed):
        if number < WRITERS:
            return _write(number, times, book)
        while not all(book.ended):
            if number < WRITERS + ROLLERS:
                rollup()
            else:
                flush()
    return None


def _write(number: int, times: int, book: Book) -> dict[str, list[str]]:
    chance = random.Random(number)
    came: dict[str, list[str]] = {key: [] for key in KEYS}
    try:
        for turn in range(times):
            who, tags = f"p{chance.randrange(PEOPLE)}", {"country": chance.choice("ABC")}
            if turn % 3 == 0:
                keys = chance.sample(KEYS, 3)
                Counter.objects.increment_many(dict.fromkeys(keys, 1), who=who, tags=tags)
            elif turn % 3 == 1:
                keys = [chance.choice(KEYS)]
                with transaction.atomic():
                    Counter.objects.increment(keys[0], who=who, tags=tags)
                    if turn % 2:
                        transaction.set_rollback(True)
                        keys = []
            else:
                keys = [chance.choice(KEYS)]
                with Counter.objects.collect():
                    Counter.objects.increment(keys[0], who=who, tags=tags)
            for key in keys:
                came[key].append(who)
    finally:
        book.ended[number] = 1
    return came
