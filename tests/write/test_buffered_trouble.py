"""Buffers in outages, interrupts and the end of a process: each increment counts once."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from itertools import count, islice
from typing import Any

import pytest
from django.db import transaction

from django_counters.exceptions import CounterUnavailable, OutcomeUnknown
from django_counters.models import Counter, CounterIncident
from django_counters.stores.redis.keys import slot_of
from django_counters.strategies.cached import Cached
from django_counters.testing import override_counters
from django_counters.types import INT8
from django_counters.write import buffer as module
from django_counters.write import landing
from django_counters.write.buffer import Buffer
from django_counters.write.buffers import buffers
from tests.write.buffering import LATER, landed

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("cached")]


@pytest.fixture(params=["exact", "sharded", "cached"])
def inner(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def declared(inner: str) -> dict[str, Any]:
    return {"STRATEGY": inner, "OPTIONS": {"timeout": 10} if inner == "cached" else {}}


@pytest.fixture(autouse=True)
def _hits(inner: str) -> Iterator[None]:
    buffers.clear()
    hits = {**declared(inner), "BUFFER": LATER}
    full = {**declared(inner), "BUFFER": {**LATER, "most": 1}}
    with override_counters(hits=hits, full=full):
        yield
    buffers.clear()


@pytest.fixture
def lander(inner: str) -> Any:
    return landing.InRedis if inner == "cached" else landing.InDatabase


def away(*_: Any) -> Any:
    raise CounterUnavailable(using="default", reason="away")


def buffer_of(key: str) -> Buffer:
    Counter.objects.increment(key)
    (found,) = [one for _, one in buffers.those_of() if key in one.entries]
    return found


def test_a_lost_answer_then_an_outage(lander: Any, monkeypatch: Any) -> None:
    land = lander.land

    def lose(*arguments: Any) -> None:
        land(*arguments)
        raise OutcomeUnknown(using="default")

    Counter.objects.increment("hits:home", 7)
    for broken, error in ((lose, OutcomeUnknown), (away, CounterUnavailable)):
        monkeypatch.setattr(lander, "land", broken)
        with pytest.raises(error):
            Counter.objects.flush_buffers()
        assert Counter.objects.value("hits:home") == 7
    monkeypatch.setattr(lander, "land", land)
    Counter.objects.flush_buffers()
    assert landed() == Counter.objects.value("hits:home") == 7


@pytest.mark.parametrize("inner", ["cached"], indirect=True)
def test_halves_are_counted_once(monkeypatch: Any) -> None:
    """One sum does not fit, so the page is landed in parts; then Redis goes away and comes back."""
    slot = slot_of("hits:home")
    names = (f"hits:{number}" for number in count())
    others = list(islice((name for name in names if slot_of(name) == slot), 3))
    for _ in range(2):
        Counter.objects.increment("hits:home", INT8[1])
    for key in others:
        Counter.objects.increment(key)
    land, asked = Cached.land, count(1)

    def once(*arguments: Any) -> None:
        if next(asked) == 2:
            away()
        land(*arguments)

    monkeypatch.setattr(Cached, "land", once)
    with pytest.raises(OutcomeUnknown):
        Counter.objects.flush_buffers()
    assert [Counter.objects.value(key) for key in others] == [1, 1, 1]
    # What did not fit at first would fit now.
    monkeypatch.setattr(landing, "_check_range", lambda deltas: None)
    monkeypatch.setattr(Cached, "land", land)
    Counter.objects.flush_buffers()
    assert [landed(key) for key in others] == [1, 1, 1]
    assert CounterIncident.objects.count() == 1


def test_what_is_committed_and_cannot_be_counted_is_told(lander: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(lander, "land", away)
    Counter.objects.increment("full:b")
    with transaction.atomic():
        for name in "abc":
            Counter.objects.increment(f"full:{name}", 10)
        monkeypatch.setattr(lander, "apply", away)
    # The first one takes the place of what is sealed and cannot be landed.
    values = Counter.objects.values_of([f"full:{name}" for name in "abc"])
    assert list(values.values()) == [10, 1, 0]
    told = CounterIncident.objects.filter(kind="lost").values_list("detail", flat=True)
    assert sorted(key for detail in told for key in detail["amounts"]) == ["full:b", "full:c"]


def test_a_seal_that_is_interrupted(monkeypatch: Any) -> None:
    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    Counter.objects.increment("hits:home", 7)
    with monkeypatch.context() as patch:
        patch.setattr(module, "Sealed", interrupted)
        with pytest.raises(KeyboardInterrupt):
            Counter.objects.flush_buffers()
    Counter.objects.increment("hits:home", 5)
    assert Counter.objects.value("hits:home") == 12
    assert Counter.objects.flush_buffers() == 2
    assert landed() == Counter.objects.value("hits:home") == 12


def test_nothing_is_taken_after_the_end(monkeypatch: Any) -> None:
    """Not by one who has found room just before."""
    found, has_room = buffer_of("hits:home"), Buffer._has_room

    def ended(self: Buffer) -> bool:
        room = has_room(self)
        self.closed = True
        self.flush()
        return room

    monkeypatch.setattr(Buffer, "_has_room", ended)
    Counter.objects.increment("hits:other")
    assert not found.entries
    assert (landed(), landed("hits:other")) == (1, 1)


def test_no_garbage_is_collected_under_the_lock(inner: str) -> None:
    found, stuck = buffer_of("hits:home"), []

    class Cyclic:
        def __init__(self) -> None:
            self.me = self

        def __del__(self) -> None:
            if found.lock.locked():
                stuck.append(1)

    before = gc.get_threshold()
    try:
        for threshold in range(1, 8):
            gc.collect()
            gc.set_threshold(threshold, 1000, 1000)
            for number in range(20):
                Cyclic()
                found.add(f"hits:{inner}-{threshold}-{number}", 1)
    finally:
        gc.set_threshold(*before)
    assert not stuck
