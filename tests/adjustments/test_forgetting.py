"""``forget``: a counter is zero from then on, wherever something waits for it, and stays so."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.db import connections, transaction

from django_counters.errors import CounterOverflow, InvalidKey
from django_counters.models import Counter, CounterDelta, CounterShard
from django_counters.testing import override_counters
from tests.adjustments.adjustables import NAMED, Adjustable, assert_sound, upkeep

pytestmark = [
    pytest.mark.django_db(transaction=True, databases=["default", "other"]),
    pytest.mark.usefixtures("cached"),
]
WRITERS, TIMES = 4, 25


@pytest.fixture(params=NAMED)
def counter(request: pytest.FixtureRequest) -> Iterator[Adjustable]:
    """A named counter of each strategy."""
    counter = Adjustable(NAMED[request.param])
    with counter.declared():
        yield counter


def forget(key: str = Adjustable.key) -> int:
    return Counter.objects.forget(key)


def value_of(counter: Adjustable) -> list[int]:
    """Its value in each way to ask for it."""
    values = Counter.objects.values_of([counter.key], consistency="cached", max_age=1000)
    return [counter.value(), values[counter.key], Counter.objects.explain(counter.key).value]


@pytest.mark.parametrize("folded", [False, True], ids=["waiting", "folded"])
def test_it_comes_back_by_no_upkeep(counter: Adjustable, folded: bool) -> None:
    for by in (7, -2):
        counter.increment(by)
    if folded:
        upkeep()
        counter.increment(4)
    assert forget() == (9 if folded else 5)
    assert value_of(counter) == [0, 0, 0]
    counter.increment(3)
    assert value_of(counter) == [3, 3, 3]
    for _ in range(2):
        upkeep()
        assert value_of(counter) == [3, 3, 3]
    assert_sound()


@pytest.mark.parametrize("to", NAMED)
def test_what_waits_since_another_strategy_goes_with_it(to: str) -> None:
    counter = Adjustable(NAMED["exact"])
    counter.increment(7)
    CounterShard.objects.increment(counter.key, 20)
    CounterDelta.objects.append(counter.key, 300)
    with override_counters(c=NAMED[to].declared or {}):
        assert forget() == 327
        for _ in range(2):
            assert value_of(counter) == [0, 0, 0]
            upkeep()
    assert_sound()


def test_nothing_says_that_an_exact_one_was_there() -> None:
    Counter.objects.increment("a", 5)
    assert (forget("a"), forget("a"), forget("never")) == (5, 0, 0)
    assert not Counter.objects.exists()


def test_a_floor_is_not_asked() -> None:
    with override_counters(c={"FLOOR": 1}):
        Counter.objects.increment("c:a", 5)
        assert (forget("c:a"), Counter.objects.value("c:a")) == (5, 0)


def test_it_is_part_of_the_transaction(counter: Adjustable) -> None:
    counter.increment(5)
    with transaction.atomic():
        assert forget() == 5
        transaction.set_rollback(True)
    assert value_of(counter) == [5, 5, 5]


def test_what_is_collected_goes_with_it() -> None:
    with Counter.objects.collect():
        Counter.objects.increment("a", 5)
        assert forget("a") == 5
        Counter.objects.increment("a", 2)
    assert Counter.objects.value("a") == 2


def test_what_it_refuses() -> None:
    with pytest.raises(InvalidKey):
        forget("a b")
    Counter.objects.increment("a", -(2**63))
    with pytest.raises(CounterOverflow):
        forget("a")
    assert Counter.objects.value("a") == -(2**63)


def test_using_and_the_async_twin() -> None:
    for using in ("default", "other"):
        Counter.objects.increment("a", 5, using=using)
    assert async_to_sync(Counter.objects.aforget)("a", using="other") == 5
    assert (Counter.objects.value("a"), Counter.objects.value("a", using="other")) == (5, 0)


@pytest.mark.many_writers
def test_all_that_is_counted_meanwhile_is_taken_or_stays(counter: Adjustable) -> None:
    def work(call: Any, times: int = TIMES) -> list[Any]:
        try:
            return [call() for _ in range(times)]
        finally:
            connections.close_all()

    with ThreadPoolExecutor(WRITERS + 3) as pool:
        counting = [pool.submit(work, counter.increment) for _ in range(WRITERS)]
        forgetting = [pool.submit(work, forget) for _ in range(2)]
        pool.submit(work, upkeep, 2).result()
    assert [len(one.result()) for one in counting] == [TIMES] * WRITERS
    taken = sum(sum(one.result()) for one in forgetting)
    for _ in range(2):
        assert taken + counter.value() == WRITERS * TIMES
        upkeep()
    assert_sound()
