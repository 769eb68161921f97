"""What a process keeps does not grow with what it counts."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable, Iterator

import pytest

from django_counters import registry
from django_counters.models import Counter, CounterShard, SlottedCounter
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
