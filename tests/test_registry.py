"""What a process keeps: no more for what it counts, and nothing of settings that have changed."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from django_counters import conf, registry
from django_counters.models import Counter, CounterShard, SlottedCounter
from django_counters.testing import override_counters
from django_counters.types import Bounds
from tests.testapp.models import Track

pytestmark = pytest.mark.django_db

WAYS: dict[str, Callable[[Track, str], object]] = {
    "slots": SlottedCounter.objects.increment,
    "keys": lambda track, name: Counter.objects.increment(name),
    "shards": lambda track, name: CounterShard.objects.increment(name),
}


@pytest.fixture
def traced() -> Iterator[None]:
    tracemalloc.start()
    yield
    tracemalloc.stop()


@pytest.mark.usefixtures("traced")
@pytest.mark.parametrize("way", WAYS)
def test_memory_does_not_grow_with_distinct_names(
    way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "_MOST_KEPT", 50)
    track = Track.objects.create()

    def count(start: int) -> int:
        for number in range(start, start + 200):
            WAYS[way](track, f"name-{number}")
        gc.collect()
        return tracemalloc.get_traced_memory()[0]

    # The first names fill what has a limit. An entry for each name took 1,500,000 bytes.
    before = count(0)
    assert count(200) - before < 100_000


def test_what_another_thread_parses_of_the_past_is_not_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The threads of buffers ask for settings at any time, also while a test changes them."""
    real, found = conf.policies, registry.Registry()

    def slow(declared: Any) -> Any:
        parsed = real(declared)
        monkeypatch.setattr(registry, "policies", real)
        with override_counters(stock={"FLOOR": 3}):
            found.forget_policies(setting="COUNTERS")
            assert found.policy("stock:a").bounds == Bounds(3, None)
            return parsed

    monkeypatch.setattr(registry, "policies", slow)
    with override_counters(stock={"FLOOR": 1}):
        assert found.policies()["stock"].bounds == Bounds(1, None)
    assert found.policy("stock:a").bounds == Bounds(3, None)
