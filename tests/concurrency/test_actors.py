"""Counters of actors under many writers: every snapshot has as many rows as they count."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from typing import Any

import pytest
from django.db import connection, transaction

from django_counters.contrib import likes
from django_counters.contrib.likes.models import CounterActor
from django_counters.errors import Contention, RecordMissing, RetryTransaction
from django_counters.fields.values import CounterOf
from django_counters.models import Counter
from django_counters.testing import override_counters
from django_counters.types import Result
from django_counters.upkeep import rollup, verify
from tests.concurrency.crowd import Threads
from tests.stores.test_failures import wait_for_lock
from tests.testapp.models import Note

pytestmark = [pytest.mark.many_writers, pytest.mark.django_db(transaction=True)]
WRITERS = 16
ONCE: dict[str, Any] = {
    "likes": {"ONCE": True, "PER": ["day"]},
    "stars": {"STRATEGY": "sharded", "ONCE": True},
}
ACTORS = ["ann", "bob", "eve"]


@pytest.fixture(autouse=True)
def _declared() -> Iterator[None]:
    with override_counters(**ONCE):
        yield


def test_toggles_of_the_same_and_of_others() -> None:
    """In transactions and savepoints, some of them rolled back; nobody waits for ever."""
    notes = [Note.objects.create().pk for _ in range(2)]
    done = threading.Event()
    left = list(range(WRITERS))

    def work(number: int) -> list[Any]:
        if number == WRITERS:
            return _watched(done)
        try:
            chance = random.Random(number)
            for _ in range(40):
                _toggle(chance, notes)
        finally:
            left.pop()
            if not left:
                done.set()
        return []

    told = Threads(WRITERS + 1).run(work)
    assert told[-1] == []
    rollup()
    assert verify().drifts == []
    assert CounterActor.objects.exists()


def _toggle(chance: random.Random, notes: list[int]) -> None:
    who, note = chance.choice(ACTORS), chance.choice(notes)
    names = ["likes", "stars", "claps", "waves"]
    field = getattr(Note, chance.choice(names)).of(note)
    key = f"{chance.choice(['likes', 'stars'])}:page"
    way = chance.randrange(6)
    with transaction.atomic():
        if way == 0:
            likes.toggle(field, who)
        elif way == 1:
            likes.toggle(key, who)
        elif way == 2:
            field.increment(who=who)
        elif way == 3:
            Counter.objects.decrement(key, who=who)
        elif way == 4:
            with transaction.atomic():
                likes.toggle(field, who)
                transaction.set_rollback(True)
            Counter.objects.increment(key, who=who)
        else:
            field.decrement(who=who)
            transaction.set_rollback(chance.random() < 0.5)


def _watched(done: threading.Event) -> list[Any]:
    """What was wrong in any snapshot until all have ended."""
    wrong: list[Any] = []
    while not done.is_set():
        wrong += verify().drifts
    return wrong


def test_one_actor_from_all_sides() -> None:
    """Sixteen clicks at once count once; as many toggles are one after the other."""
    note = Note.objects.create()
    for counter in Note.likes.of(note.pk), Note.stars.of(note.pk):
        results = Threads(WRITERS).run(partial(_click, counter))
        assert sorted(result.replayed for result in results) == [False] + [True] * (WRITERS - 1)
        assert counter.value() == 1
        toggled = Threads(WRITERS).run(partial(_toggled, counter))
        assert sorted(toggled) == [False] * (WRITERS // 2) + [True] * (WRITERS // 2)
        assert (counter.value(), likes.has(counter, "ann")) == (1, True)


def _click(counter: CounterOf, _: int) -> Result:
    return counter.increment(who="ann")


def _toggled(counter: CounterOf, _: int) -> bool:
    return likes.toggle(counter, "ann").has


def test_a_second_click_waits_for_the_first_one() -> None:
    """And counts where that is rolled back."""
    counted = threading.Event()

    def work(number: int) -> bool:
        if number:
            counted.wait(60)
            return Counter.objects.increment("likes:page", who="ann").replayed
        with transaction.atomic():
            Counter.objects.increment("likes:page", who="ann")
            counted.set()
            wait_for_lock()
            transaction.set_rollback(True)
        return True

    assert Threads(2).run(work) == [True, False]
    assert Counter.objects.value("likes:page") == CounterActor.objects.count() == 1


def test_records_that_are_deleted_meanwhile() -> None:
    """Likes of a record that goes and comes back with its key."""
    pk = Note.objects.create().pk

    def work(number: int) -> None:
        if number == 0:
            for _ in range(15):
                Note.objects.filter(pk=pk).delete()
                Note.objects.create(pk=pk)
            return
        chance = random.Random(number)
        for turn in range(30):
            field = getattr(Note, chance.choice(["likes", "stars"])).of(pk)
            # It may be gone when it is looked for, and there when it is asked why.
            with suppress(RecordMissing, Contention):
                field.increment(who=f"{number} {turn}")
                field.decrement(who=f"{number} {turn - chance.randrange(2)}")

    Threads(8).run(work)
    rollup()
    assert verify().drifts == []


@pytest.mark.postgresql  # a check refuses it on MySQL
def test_nobody_deadlocks_with_himself_in_a_repeatable_read() -> None:
    """What a transaction does not see is an error with a name, and leaves nothing."""
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        Counter.objects.value("likes:page")
        Threads(1).run(lambda _: Counter.objects.increment("likes:page", who="ann"))
        with pytest.raises(RetryTransaction), transaction.atomic():
            Counter.objects.increment("likes:page", who="ann")
    assert Counter.objects.value("likes:page") == CounterActor.objects.count() == 1
