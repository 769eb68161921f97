"""What Redis forgets when a total was changed in another way."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from django_counters.exceptions import CounterUnavailable
from django_counters.stores.redis.keys import SLOTS, slot_of
from tests.stores.redis.test_pending import DEAD, Bench

HOUR = 3_600_000


@pytest.fixture
def bench() -> Iterator[Bench]:
    made = Bench(os.environ["REDIS_URL"])
    yield made
    made.close()


def base(bench: Bench, name: str) -> dict[str, str]:
    return bench.hash(slot_of(name), 1)


def forget(bench: Bench, *names: str) -> None:
    bench.send(bench.pending.forget(names))


def test_it_forgets_a_total_and_when_it_was_asked_for(bench: Bench) -> None:
    bench.add(a=5)
    bench.fill("a", 10)
    assert bench.look("a", age=HOUR)["a"].total == 10
    forget(bench, "a")
    assert base(bench, "a").keys() & {"a", "\0ma", "\0v"} == set()
    found = bench.look("a", age=HOUR)["a"]
    assert (found.total, found.pending) == (None, 5)


def test_it_leaves_what_waits_and_what_is_known_of_others(bench: Bench) -> None:
    neighbour = next(f"n{n}" for n in range(10_000) if slot_of(f"n{n}") == slot_of("a"))
    bench.add(a=5)
    bench.add(**{neighbour: 7})
    for name in ("a", neighbour):
        bench.fill(name, 10)
    before = bench.everything()
    forget(bench, "a")
    assert bench.everything() == before == {"a": "5", neighbour: "7"}
    assert bench.look(neighbour, age=HOUR)[neighbour].total == 10


def test_who_has_asked_before_does_not_fill_it_in(bench: Bench) -> None:
    """Whether or not the total was known."""
    for known in (False, True):
        lease = bench.look("a", age=0)["a"].lease
        if known:
            bench.fill("a", 10)
            lease = bench.look("a", age=0)["a"].lease or lease
        forget(bench, "a")
        bench.send(bench.pending.fill({"a": (10, lease)}))
        assert bench.look("a", age=HOUR)["a"].total is None
        bench.fill("a", 12)
        assert bench.look("a", age=HOUR)["a"].total == 12
        forget(bench, "a")


def test_what_is_sealed_lands_in_no_total_that_is_forgotten(bench: Bench) -> None:
    bench.add(a=5)
    bench.fill("a", 10)
    sealed = bench.sealed()
    forget(bench, "a")
    bench.pending.acknowledge(dict.fromkeys(sealed, ()))
    assert "a" not in base(bench, "a")


def test_many_of_all_slots(bench: Bench) -> None:
    names = [f"n{number}" for number in range(3 * SLOTS)]
    for name in names:
        bench.fill(name, 1)
    forget(bench, *names[1:])
    found = bench.look(*names, age=HOUR)
    assert [name for name in names if found[name].total is not None] == names[:1]


def test_what_is_not_known_and_nothing_at_all(bench: Bench) -> None:
    forget(bench, "a", "größe %s {}")
    forget(bench)
    assert bench.everything() == {}


def test_without_redis() -> None:
    bench = Bench(DEAD)
    with pytest.raises(CounterUnavailable):
        forget(bench, "a")
