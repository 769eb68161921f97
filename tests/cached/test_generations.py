"""A flush of several parts: the next one is read, and the last one removed, while one is landed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import pytest

from django_counters.cached.flush import flush
from django_counters.cached.pending import RedisPending, SealedGeneration
from django_counters.errors import CounterUnavailable
from django_counters.landing import ParcelLanding
from django_counters.models import Counter
from django_counters.redis.keys import slot_of
from django_counters.stores.base import Parcel

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("cached")]
PATIENCE = 30


def stored() -> dict[str, int]:
    return dict(Counter._base_manager.values_list("key", "value"))


class Order:
    """What was done, in its order: ``read``, ``committed`` and ``removed``, with a generation."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.done: list[tuple[str, str]] = []
        self._changed = threading.Condition()
        contents, acknowledge, land = (
            RedisPending.parcel,
            RedisPending.acknowledge,
            ParcelLanding.land,
        )

        def read(pending: RedisPending, sealed: SealedGeneration) -> Parcel | None:
            found = contents(pending, sealed)
            self._note("read", sealed.generation)
            return found

        def remove(
            pending: RedisPending,
            landed: Mapping[SealedGeneration, Sequence[str]],
            lost: Collection[int],
        ) -> None:
            for sealed in landed:
                self._note("removed", sealed.generation)
            acknowledge(pending, landed, lost)

        def landed(landing: ParcelLanding, parcels: Sequence[Parcel], sums: Any) -> Any:
            (generation,) = [one.id for one in parcels]
            last = len(self.times("committed")) == 2
            # The database is at work: meanwhile the next one is read.
            assert last or self._wait(lambda: len(self.times("read")) > self._place(generation))
            result = land(landing, parcels, sums)
            self._note("committed", generation)
            return result

        patch.setattr(RedisPending, "parcel", read)
        patch.setattr(RedisPending, "acknowledge", remove)
        patch.setattr(ParcelLanding, "land", landed)

    def times(self, what: str) -> list[str]:
        return [generation for done, generation in self.done if done == what]

    def _place(self, generation: str) -> int:
        return self.times("read").index(generation) + 1

    def _note(self, what: str, generation: str) -> None:
        with self._changed:
            self.done.append((what, generation))
            self._changed.notify_all()

    def _wait(self, come: Callable[[], bool]) -> bool:
        with self._changed:
            return self._changed.wait_for(come, PATIENCE)


@pytest.fixture
def three() -> dict[str, int]:
    """Counters in three slots, so that they are three generations."""
    by_slot = {slot_of(key): key for key in (f"views:{number}" for number in range(50))}
    counted = dict.fromkeys(list(by_slot.values())[:3], 7)
    Counter.objects.increment_many(counted)
    return counted


@pytest.mark.rare
def test_the_next_one_is_read_while_one_is_landed(
    three: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        order = Order(patch)
        assert flush(largest=1).counters == 3
    assert stored() == three
    read, committed, removed = (order.times(what) for what in ("read", "committed", "removed"))
    assert read == committed == removed
    for generation in read:
        at = [order.done.index((what, generation)) for what in ("read", "committed", "removed")]
        assert at == sorted(at), "one is removed when it has landed, and not before"


@pytest.mark.parametrize("failing", [1, 2, 3])
def test_what_cannot_be_removed_is_removed_by_the_next(
    failing: int, three: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    acknowledge, times = RedisPending.acknowledge, iter(range(1, 10))

    def away(pending: RedisPending, *landed: Any) -> None:
        if next(times) == failing:
            raise CounterUnavailable(using="its Redis", reason="away")
        acknowledge(pending, *landed)

    with monkeypatch.context() as patch:
        patch.setattr(RedisPending, "acknowledge", away)
        report = flush(largest=1)
    assert report.away == {"default": "away"}
    assert set(Counter.objects.values_of(list(three)).values()) == {7}
    assert report.counters + flush(largest=1).counters == 3
    assert stored() == three
    assert flush().generations == 0


def test_what_cannot_be_read_ahead_is_not_lost(
    three: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    contents, times = RedisPending.parcel, iter(range(1, 10))

    def away(pending: RedisPending, sealed: SealedGeneration) -> Parcel | None:
        if next(times) == 2:
            raise CounterUnavailable(using="its Redis", reason="away")
        return contents(pending, sealed)

    with monkeypatch.context() as patch:
        patch.setattr(RedisPending, "parcel", away)
        report = flush(largest=1)
    assert (report.away, report.counters) == ({"default": "away"}, 1)
    assert flush(largest=1).counters == 2
    assert stored() == three
