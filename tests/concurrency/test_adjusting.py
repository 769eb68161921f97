"""Adjustments among writers, flushes, rollups and each other: exact, in order, and each once."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from itertools import count
from typing import Any

import pytest
from django.db import OperationalError, connection

from django_counters.errors import InsufficientCount
from django_counters.models import Counter, CounterAdjustment
from django_counters.testing import override_counters
from django_counters.upkeep import rollup
from tests.adjustments.adjustables import (
    KINDS,
    SOME,
    WHO,
    Adjustable,
    Kind,
    assert_sound,
    upkeep,
)
from tests.concurrency import adjusting
from tests.concurrency.adjusting import CASE
from tests.concurrency.crowd import processes
from tests.concurrency.servers import hurry
from tests.concurrency.victims import victims
from tests.settling import roll_up

pytestmark = [pytest.mark.many_writers, pytest.mark.django_db(transaction=True)]
Elsewhere = Callable[[Callable[[], Any]], Any]


def rows() -> list[CounterAdjustment]:
    return list(CounterAdjustment.objects.order_by("number"))


@pytest.mark.parametrize("counters", [1, 2])
def test_hundreds_of_adjustments(counters: int) -> None:
    """Each one meets the value that the one before has left, and has the next number."""
    crowd, times = 6, 50
    deltas = processes(crowd, adjusting.take_turns, times, counters)
    found = rows()
    assert len(found) == crowd * times
    assert [row.number for row in found] == list(range(1, len(found) + 1))
    values = {f"c:{number}": 0 for number in range(counters)}
    for row in found:
        assert (row.before, row.after) == (values[row.key], row.before + row.delta)
        values[row.key] = row.after
    assert Counter.objects.values_of(values) == values
    assert sum(values.values()) == sum(deltas)
    assert_sound()


@pytest.mark.parametrize("kind", [Kind({"FLOOR": 0}), KINDS["bounded field"]])
def test_what_is_left_is_taken_once(kind: Kind, elsewhere: Elsewhere) -> None:
    """Whichever statement of an adjustment another change meets, one of both is refused."""
    counter = Adjustable(kind)
    with counter.declared():
        counter.increment(5)
        for statement in count(1):
            taken: list[bool] = []
            take = partial(_take, counter)
            with connection.execute_wrapper(_before(statement, taken, elsewhere, take)):
                try:
                    counter.adjust(by=-5)
                    adjusted = True
                except InsufficientCount:
                    adjusted = False
            assert counter.value() == 0
            if not taken:
                break
            assert [adjusted, *taken].count(True) == 1
            counter.adjust(to=5)
    assert statement > 4
    assert_sound()


def _take(counter: Adjustable) -> bool:
    hurry(50)
    try:
        counter.increment(-5)
    except (InsufficientCount, OperationalError):
        return False
    return True


def _before(
    statement: int, told: list[Any], elsewhere: Elsewhere, call: Callable[[], Any]
) -> Callable[..., Any]:
    """A wrapper that makes a call elsewhere before the statement of a number."""
    numbers = count(1)

    def wrapper(execute: Callable[..., Any], *words: Any) -> Any:
        if next(numbers) == statement:
            told.append(elsewhere(call))
        return execute(*words)

    return wrapper


@pytest.mark.usefixtures("cached")
@pytest.mark.parametrize(
    ("kind", "to"), [*((kind, 100) for kind in SOME), ("exact", 0), ("sharded", 0)]
)
def test_somebody_counts_and_rolls_up_before_each_statement(
    kind: str, to: int, elsewhere: Elsewhere
) -> None:
    """An adjustment, or a reset, meets an increment or leaves it as it is, wherever it waits."""
    counter = Adjustable(KINDS[kind])
    with counter.declared():
        for statement in count(1):
            counter.increment(5)
            before = counter.value()
            counted: list[bool] = []
            call = partial(_count_and_roll_up, counter)
            with connection.execute_wrapper(_before(statement, counted, elsewhere, call)):
                row = counter.adjust(to=to) if to else counter.reset()
            met = row.before - before
            assert 0 <= met <= sum(counted)
            assert row.delta == to - row.before
            assert counter.value() == to + sum(counted) - met
            if not counted:
                break
        upkeep()
        assert counter.value() == to
    assert statement > 4
    assert_sound()


def _count_and_roll_up(counter: Adjustable) -> bool:
    hurry(50)
    try:
        counter.increment()
    except OperationalError:
        return False
    with suppress(OperationalError):
        rollup()
    return True


def test_one_case_of_several_processes() -> None:
    """Whoever comes first adjusts a counter, and nobody does it again."""
    keys = [f"k:{number:02d}" for number in range(40)]
    answers = processes(4, adjusting.one_case, keys, 3)
    assert sum(changed for changed, _ in answers) == len(keys)
    assert sum(done for _, done in answers) == 3 * len(keys)
    assert set(Counter.objects.values_of(keys).values()) == {5}
    assert len(rows()) == len(keys)
    assert_sound()


def test_many_at_once_against_batches_of_increments() -> None:
    """Both take their counters in one order, so that none waits for the other for ever."""
    keys, rounds, crowd = [f"k:{number}é" for number in range(400)], 8, 6
    processes(crowd, adjusting.against_batches, keys, rounds)
    expected = crowd // 2 * rounds * (1 + adjusting.BATCHES)
    assert set(Counter.objects.values_of(keys).values()) == {expected}
    assert_sound()


def test_killed_after_each_of_its_statements() -> None:
    """What was committed is found by the next call, and what was not is made by it: each once."""
    expected, steps, finished = 0, set(), False
    with override_counters(**adjusting.DECLARED), victims(adjusting.next_case) as kill:
        for statement in range(1, 200):
            case = f"T-{len(rows()) // len(CASE)}"
            sql = kill(statement)
            done = len(rows()) % len(CASE) if sql is not None else len(CASE)
            assert done % 2 == 0
            steps.add(done)
            values = Counter.objects.values_of(CASE)
            assert sorted(values.values()) == sorted(
                [expected + 5] * done + [expected] * (len(CASE) - done)
            )
            report = Counter.objects.adjust_many(
                by=dict.fromkeys(CASE, 5), case=case, step=2, **WHO
            )
            assert (report.done, len(report.changes)) == (done, len(CASE) - done)
            expected += 5
            assert set(Counter.objects.values_of(CASE).values()) == {expected}
            if sql is None:
                finished = True
                break
    assert finished, "it has more statements than were tried"
    assert steps == {0, 2, 4}
    roll_up()
    assert set(Counter.objects.values_of(CASE).values()) == {expected}
    assert_sound()
