"""Threads of one process whose increments are combined: the same values as one after the other."""

from __future__ import annotations

import random
import threading
from collections import Counter as Tally
from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

import pytest
from django.db import Error, connection

from django_counters.exceptions import CounterOverflow, OutcomeUnknown
from django_counters.kinds.registry import registry
from django_counters.models import Counter
from django_counters.testing import assert_counts, override_counters
from django_counters.types import INT8
from tests.concurrency.crowd import Threads
from tests.concurrency.leading import COMBINED, combining

pytestmark = [pytest.mark.postgres, pytest.mark.django_db(transaction=True)]
THREADS = 16
HIGHEST = INT8[1]


@pytest.fixture(autouse=True)
def _combined() -> Iterator[None]:
    registry.forget_strategies()
    with override_counters(c=COMBINED):
        yield
        assert not combining()._waiting
        assert not combining()._busy


class Step(NamedTuple):
    """One change and the value that it returned."""

    key: str
    by: int
    value: int


def one_after_the_other(steps: list[tuple[int, int]], start: int) -> bool:
    """Whether there is an order in which each step begins where the one before it ended.

    Steps are arrows from the value before to the value after. There is a way that takes each of
    them once if all but its ends are left as often as they are reached, and all hang together.
    """
    balance: Tally[int] = Tally()
    neighbours: defaultdict[int, set[int]] = defaultdict(set)
    for before, after in steps:
        balance[before] += 1
        balance[after] -= 1
        neighbours[before].add(after)
        neighbours[after].add(before)
    end = start + sum(after - before for before, after in steps)
    balance[start] -= 1
    balance[end] += 1
    reached, waiting = {start}, [start]
    while waiting:
        new = neighbours[waiting.pop()] - reached
        reached |= new
        waiting.extend(new)
    return not any(balance.values()) and reached >= neighbours.keys()


def test_what_is_no_order_is_noticed() -> None:
    assert one_after_the_other([(0, 3), (3, 1), (1, 2), (2, 3)], 0)
    assert not one_after_the_other([(0, 1), (0, 1)], 0)
    assert not one_after_the_other([(0, 1), (2, 3)], 0)
    assert not one_after_the_other([(0, 1), (5, 6), (6, 5)], 0)


def test_one_key() -> None:
    """Each call returns another value, and finds it in the database when it returns."""
    times = 250

    def work(number: int) -> list[int]:
        values = []
        for _ in range(times):
            values.append(Counter.objects.increment("c:hot"))
            # On this thread's own connection: the statement was as a rule sent by another one.
            assert Counter.objects.value("c:hot") >= values[-1]
        return values

    values = [value for part in Threads(THREADS).run(work) for value in part]
    assert sorted(values) == list(range(1, THREADS * times + 1))
    assert_counts({"c:hot": THREADS * times})


def test_many_keys_and_deltas() -> None:
    def work(number: int) -> list[Step]:
        chance = random.Random(number)
        steps = []
        for _ in range(200):
            key, by = f"c:{chance.randrange(3)}", chance.choice((1, 1, 2, 5, -1, -3))
            steps.append(Step(key, by, Counter.objects.increment(key, by)))
        return steps

    steps = [step for part in Threads(THREADS).run(work) for step in part]
    for key in {step.key for step in steps}:
        mine = [step for step in steps if step.key == key]
        assert one_after_the_other([(s.value - s.by, s.value) for s in mine], 0)
        assert Counter.objects.value(key) == sum(step.by for step in mine)


def test_an_overflow_reaches_its_calls_alone() -> None:
    """One thread asks for too much again and again, while others count the same key and others."""
    Counter.objects.increment("c:full", HIGHEST - 1000)
    times = 50

    def work(number: int) -> int:
        refused = 0
        for _ in range(times):
            if number == 0:
                with pytest.raises(CounterOverflow) as caught:
                    Counter.objects.increment("c:full", 2000)
                refused += caught.value.key == "c:full"
            else:
                Counter.objects.increment("c:full" if number % 2 else "c:other")
        return refused

    assert sum(Threads(THREADS).run(work)) == times
    assert_counts({"c:full": HIGHEST - 1000 + 8 * times, "c:other": 7 * times})


def test_combined_and_other_writers_of_the_same_keys() -> None:
    """Batches, bounds and transactions go past the queue to the same rows."""

    def work(number: int) -> int:
        added = 0
        for turn in range(100):
            match (number + turn) % 4:
                case 0:
                    Counter.objects.increment_many({"c:b": 1, "c:a": 1})
                case 1:
                    Counter.objects.increment("c:b", ceiling=HIGHEST)
                case 2:
                    with Counter.objects.collect():
                        Counter.objects.increment("c:b")
                        Counter.objects.increment("c:a")
                case _:
                    Counter.objects.increment("c:a")
            added += (number + turn) % 4 in (0, 2, 3)
        return added

    added = sum(Threads(THREADS).run(work))
    assert_counts({"c:a": added, "c:b": added})


def test_connections_that_are_cut_again_and_again() -> None:
    """Every answer tells the truth: counted, not counted, or that nobody knows."""
    pids: dict[int, int] = {}
    attempts, done = threading.Semaphore(0), threading.Event()

    def count(number: int) -> Tally[str]:
        tally: Tally[str] = Tally()
        while not done.is_set():
            connection.ensure_connection()
            pids[number] = connection.connection.info.backend_pid
            tally[attempt()] += 1
            attempts.release()
        return tally

    def cut() -> Tally[str]:
        chance = random.Random(0)
        try:
            for _ in range(30):
                assert all(attempts.acquire(timeout=30) for _ in range(THREADS))
                with connection.cursor() as cursor:
                    pid = chance.choice(list(pids.values()))
                    cursor.execute("SELECT pg_terminate_backend(%s)", [pid])
        finally:
            done.set()
        return Tally()

    tally: Tally[str] = Tally()
    for part in Threads(9).run(lambda number: count(number) if number else cut()):
        tally.update(part)
    assert tally["unknown"] + tally["not counted"] > 0
    value = Counter.objects.value("c:hot")
    assert tally["counted"] <= value <= tally["counted"] + tally["unknown"], tally


def attempt() -> str:
    """Count once, and say what the caller learns."""
    try:
        Counter.objects.increment("c:hot")
    except Error as error:
        connection.close()
        return "unknown" if isinstance(error, OutcomeUnknown) else "not counted"
    return "counted"
