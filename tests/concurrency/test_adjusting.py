"""Adjustments among writers, flushes, rollups and each other: exact, in order, and each once."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

import pytest
from django.conf import settings as django_settings
from django.db import OperationalError, connection

from django_counters.exceptions import InsufficientCount
from django_counters.models import Counter, CounterAdjustment
from django_counters.testing import override_counters
from django_counters.upkeep.flush import flush
from tests.concurrency import adjusting
from tests.concurrency.adjusting import CASE, KEY, Met, Scene
from tests.concurrency.crowd import processes
from tests.concurrency.ledger_work import Book
from tests.concurrency.servers import execute
from tests.concurrency.victims import victims
from tests.fields.test_cached import be_patient
from tests.kinds.adjustables import KINDS, NAMED, WHO, Adjustable, Kind, assert_sound
from tests.settling import roll_up
from tests.testapp.models import Article, Post, Song

pytestmark = [pytest.mark.postgres, pytest.mark.django_db(transaction=True)]
FIELDS: dict[str, tuple[Any, str]] = {
    "exact field": (Post, "likes"),
    "slotted field": (Song, "plays"),
    "cached field": (Article, "reads"),
}


def rows() -> list[CounterAdjustment]:
    return list(CounterAdjustment.objects.order_by("number"))


@pytest.mark.parametrize("counters", [1, 2])
def test_a_thousand_adjustments(counters: int) -> None:
    """Each one meets the value that the one before has left, and has the next number."""
    crowd, times = 6, 167
    deltas = processes(crowd, adjusting.take_turns, times, counters)
    found = rows()
    assert len(found) == crowd * times > 1000
    assert [row.number for row in found] == list(range(1, len(found) + 1))
    values = {f"c:{number}": 0 for number in range(counters)}
    for row in found:
        assert (row.before, row.after) == (values[row.key], row.before + row.delta)
        values[row.key] = row.after
    assert Counter.objects.values_of(values) == values
    assert sum(values.values()) == sum(deltas)
    assert_sound()


@pytest.fixture(params=[*NAMED, *FIELDS])
def scene(request: pytest.FixtureRequest, cached: str, monkeypatch: pytest.MonkeyPatch) -> Scene:
    be_patient(monkeypatch)
    caches = dict(django_settings.CACHES)
    if request.param in NAMED:
        return Scene(NAMED[request.param].declared or {}, caches)
    model, name = FIELDS[request.param]
    record = model._base_manager.create()
    return Scene({}, caches, model._meta.label, name, record.pk)


def test_under_load(scene: Scene) -> None:
    """Every adjustment meets all increments that were acknowledged, and none that was not made."""
    writers, adjusters, times = 3, 2, 120
    book = Book.of(writers, subjects=1)
    crowd = writers + adjusters + 1
    answers = processes(crowd, adjusting.under_load, scene, times, adjusters, book)
    met: dict[int, Met] = {
        one.number: one for answer in answers if isinstance(answer, list) for one in answer
    }
    found, adjusted, counted = rows(), 0, 0
    assert sorted(met) == [row.number for row in found]
    for row in found:
        # How many increments it has met; never fewer than the one before.
        seen = row.before - adjusted
        one = met[row.number]
        assert one.acknowledged <= seen <= one.attempted
        assert counted <= seen
        adjusted, counted = adjusted + row.delta, seen
    with override_counters(c=scene.declared):
        assert _value(scene) == writers * times + adjusted
        flush()
        roll_up()
        assert _value(scene) == writers * times + adjusted
    assert_sound()


def _value(scene: Scene) -> int:
    return int(scene.counter().read().value) if scene.model else Counter.objects.value(KEY)


@pytest.mark.parametrize("kind", [Kind({"FLOOR": 0}), KINDS["bounded field"]])
def test_what_is_left_is_taken_once(
    kind: Kind, elsewhere: Callable[[Callable[[], Any]], Any]
) -> None:
    """Whichever statement of an adjustment another change meets, one of both is refused."""
    counter = Adjustable(kind)
    with counter.declared():
        counter.increment(5)
        for statement in count(1):
            taken: list[bool] = []
            with connection.execute_wrapper(_At(statement, taken, elsewhere, counter)):
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


class _At:
    """Takes what is left before one of the statements."""

    def __init__(self, statement: int, taken: list[bool], elsewhere: Any, counter: Any) -> None:
        self._left = statement
        self._taken, self._elsewhere, self._counter = taken, elsewhere, counter

    def __call__(self, execute: Callable[..., Any], sql: str, *rest: Any) -> Any:
        self._left -= 1
        if self._left == 0:
            self._taken.append(self._elsewhere(self._take))
        return execute(sql, *rest)

    def _take(self) -> bool:
        execute("SET lock_timeout = '50ms'")
        try:
            self._counter.increment(-5)
        except (InsufficientCount, OperationalError):
            return False
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
    keys, rounds, crowd = [f"k:{number}é" for number in range(8)], 10, 6
    processes(crowd, adjusting.against_batches, keys, rounds)
    assert set(Counter.objects.values_of(keys).values()) == {crowd * rounds}
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
