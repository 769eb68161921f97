"""Many who raise one counter to their numbers: the largest one stays, and each is there at once."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import transaction

from django_counters.cached.flush import flush
from django_counters.models import Counter, CounterIncident
from django_counters.signals import batch_applied
from tests.concurrency.crowd import Threads
from tests.testapp.models import Article, Post

pytestmark = [pytest.mark.many_writers, pytest.mark.django_db(transaction=True)]
CROWD, TIMES = 16, 30


class Gauge:
    """One counter: a named one, or that of a record."""

    def __init__(self, target: Any, name: str = "") -> None:
        self._target, self._name = target, name

    def call(self, verb: str, *given: Any) -> Any:
        if not self._name:
            return getattr(Counter.objects, verb)(self._target, *given)
        field: Any = getattr(type(self._target), self._name)
        return getattr(field.of(self._target.pk), verb)(*given)

    def stored(self) -> int:
        """What the database has."""
        if not self._name:
            return Counter.objects.get(key=self._target).value
        return int(type(self._target)._base_manager.values_list(self._name, flat=True).get())


@pytest.fixture(params=["exact", "exact field", "cached", "cached field"])
def gauge(request: pytest.FixtureRequest) -> Gauge:
    match request.param:
        case "exact":
            return Gauge("peak:site")
        case "exact field":
            return Gauge(Post.objects.create(), "views")
    request.getfixturevalue("cached")
    if request.param == "cached":
        return Gauge("views:peak")
    return Gauge(Article.objects.create(), "reads")


@pytest.fixture
def added() -> Iterator[list[int]]:
    """All that was added, as signals tell it."""
    told: list[int] = []

    def hear(batch: Any, **_: object) -> None:
        told.extend(delta.by for delta in batch.deltas)

    batch_applied.connect(hear)
    yield told
    batch_applied.disconnect(hear)


def test_the_largest_one_stays_and_it_never_falls(gauge: Gauge, added: list[int]) -> None:
    over = threading.Event()

    def work(number: int) -> int:
        if number == CROWD:
            # Reads and lands all the time.
            seen = [0]
            while not over.is_set():
                seen.append(gauge.call("value"))
                flush()
            assert seen == sorted(seen)
            return max(seen)
        chance, given = random.Random(number), [0]
        for turn in range(TIMES):
            given.append(chance.randint(1, 40 * turn + 10))
            assert gauge.call("maximum", given[-1]) >= max(given)
        if arrived.wait() == 0:
            over.set()
        return max(given)

    arrived = threading.Barrier(CROWD)
    results = Threads(CROWD + 1).run(work)
    largest = max(results)
    flush()
    assert gauge.call("value") == gauge.stored() == sum(added) == largest
    # Repeated, they change nothing.
    assert {gauge.call("maximum", number) for number in results} == {largest}
    assert sum(added) == largest


def test_among_changes_and_flushes_each_number_lands_once(gauge: Gauge, added: list[int]) -> None:
    """Nothing but what signals told is added, and what is added lands once."""
    over = threading.Event()

    def work(number: int) -> None:
        if number == CROWD:
            while not over.is_set():
                flush()
            return
        chance = random.Random(number)
        for _ in range(TIMES):
            by, wanted = chance.randint(1, 9), chance.randint(1, 3000)
            gauge.call("increment", by)
            # Nobody takes away more than he has added: it is never below the largest number.
            assert gauge.call("maximum", wanted) >= wanted
            gauge.call("decrement", by)
            assert gauge.call("maximum", wanted) >= wanted
        if arrived.wait() == 0:
            over.set()

    arrived = threading.Barrier(CROWD)
    Threads(CROWD + 1).run(work)
    flush()
    assert gauge.call("value") == gauge.stored() == sum(added)
    assert not CounterIncident.objects.exists()


def test_long_transactions() -> None:
    """Who waits for another one's transaction compares with what that has left."""

    def work(number: int) -> None:
        for turn in range(5):
            with transaction.atomic():
                wanted = 100 * turn + number
                result: Any = Counter.objects.maximum("peak:site", wanted)
                assert result >= wanted
                Counter.objects.increment(f"own:{number}")

    Threads(8).run(work)
    assert Counter.objects.value("peak:site") == 407
