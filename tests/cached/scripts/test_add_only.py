"""The shortest way to add does what ``add`` does, or nothing: each case that is not its own."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from django_counters.cached.store import NO_TOTALS, CachedState
from django_counters.redis.keys import slot_of
from django_counters.types import Delta
from tests.cached.scripts.test_pending import Bench, change_history
from tests.redis.servers import Server, needs_redis, running

LARGEST = 2**53 - 1
EARLY = 5000
AGE = 60_000  # milliseconds


@pytest.fixture
def bench() -> Iterator[Bench]:
    made = Bench(os.environ["REDIS_URL"])
    yield made
    made.close()


@pytest.fixture
def own(tmp_path: Path) -> Iterator[tuple[Bench, Server]]:
    """A server whose history is changed."""
    with running(tmp_path, ("--save", "")) as (server,):
        made = Bench(f"redis://127.0.0.1:{server.port}/0")
        yield made, server
        made.close()


def add_only(bench: Bench, name: str, by: int = 1) -> bool:
    return bench.send(bench.pending.add_only(name, by, NO_TOTALS)) is not None


def answer(bench: Bench, name: str, by: int = 1, age: int = AGE) -> CachedState | None:
    found: CachedState | None = bench.send(bench.pending.add_only(name, by, age))
    return found


def waits(bench: Bench, name: str) -> int:
    return int(bench.look(name)[name].pending)


def test_nothing_is_opened(bench: Bench) -> None:
    assert not add_only(bench, "a")
    assert bench.names() == []


def test_it_adds_to_what_is_open(bench: Bench) -> None:
    bench.add(**{"a": 2, "größe": 0})
    before = bench.hash(slot_of("a"), 0)
    assert add_only(bench, "a", 3)
    assert add_only(bench, "größe", -(2**50))
    assert (waits(bench, "a"), waits(bench, "größe")) == (5, -(2**50))
    # One generation stays what it was: its id, its history, and the one before it.
    assert bench.hash(slot_of("a"), 0) == {**before, "a": "5"}


def test_what_is_sealed_stays_as_it_is(bench: Bench) -> None:
    bench.add(a=1)
    (sealed,) = [one for one in bench.sealed() if one.slot == slot_of("a")]
    before = bench.hash(sealed.slot, 2 + sealed.place)
    assert add_only(bench, "a", 10)
    assert bench.hash(sealed.slot, 2 + sealed.place) == before
    assert waits(bench, "a") == 11


def test_no_total_is_kept_and_a_known_one_stays(bench: Bench) -> None:
    bench.add(a=1, b=1)
    bench.fill("a", 100)
    before = bench.hash(slot_of("a"), 1)
    assert add_only(bench, "a")
    assert add_only(bench, "b")
    assert bench.hash(slot_of("a"), 1) == before
    assert (bench.look("a", age=60_000)["a"].total, waits(bench, "a")) == (100, 2)
    assert bench.hash(slot_of("b"), 1) == {}


@pytest.mark.parametrize("sign", [1, -1])
def test_a_sum_that_is_too_large_is_left_to_the_other_way(bench: Bench, sign: int) -> None:
    bench.add(a=sign * (2**62 - 2**53))
    assert add_only(bench, "a", sign * LARGEST)
    present = bench.everything()["a"]
    assert int(present) == sign * (2**62 - 1)
    assert not add_only(bench, "a", sign * LARGEST)
    assert bench.everything()["a"] == present
    refused = bench.send(bench.pending.add({"a": Delta("a", sign * LARGEST)}, -1)).refused
    assert set(refused) == {"a"}


def test_a_generation_that_is_large_is_sealed_by_the_other_way(bench: Bench) -> None:
    slot = slot_of("a")
    bench.add(a=1)
    names = (f"n{number}" for number in range(10**6))
    more = [name for name in names if slot_of(name) == slot][: EARLY + 1]
    opened = bench.slots.keys(slot)[0]
    bench.direct.hset(opened, mapping=dict.fromkeys(more[: EARLY - 2], 1))
    assert add_only(bench, more[EARLY - 2])
    assert bench.direct.hlen(opened) == EARLY + 4
    assert not add_only(bench, more[EARLY])
    assert not bench.direct.hexists(opened, more[EARLY])
    # One that is there already makes it no larger.
    assert add_only(bench, more[0])
    bench.send(bench.pending.add({more[EARLY]: Delta("", 1)}, -1))
    assert bench.hash(slot, 2)[more[EARLY]] == "1"
    assert add_only(bench, more[EARLY])
    assert bench.hash(slot, 0)[more[EARLY]] == "1"


def test_a_known_total_is_part_of_the_answer(bench: Bench) -> None:
    bench.add(a=1, b=1)
    bench.fill("a", 100)
    before = bench.hash(slot_of("a"), 1)
    first = answer(bench, "a", 3)
    assert first is not None
    assert (first.total, first.pending) == (100, 4)
    assert bench.hash(slot_of("a"), 1) == before
    # More than Lua writes as an integer.
    large = answer(bench, "a", LARGEST)
    assert large is not None
    assert (large.total, large.pending) == (100, 4 + LARGEST)
    # Nothing is known of the other one, and nothing is added.
    assert answer(bench, "b") is None
    assert waits(bench, "b") == 1


def test_a_total_that_is_due_is_left_to_the_other_way(bench: Bench) -> None:
    bench.add(a=1)
    bench.fill("a", 100)
    base, moment = bench.slots.keys(slot_of("a"))[1], "\0ma"
    known = int(bench.direct.hget(base, moment))
    bench.direct.hset(base, moment, known - AGE * 3 // 4)
    kept = answer(bench, "a")
    assert kept is not None
    assert AGE * 3 // 4 <= kept.age < AGE
    bench.direct.hset(base, moment, known - AGE * 5 // 6)
    assert answer(bench, "a") is None
    # The server's clock may be set back.
    bench.direct.hset(base, moment, known + AGE)
    ahead = answer(bench, "a")
    assert ahead is not None
    assert ahead.age == 0
    assert waits(bench, "a") == 3


def test_what_is_sealed_is_part_of_the_other_answer_alone(bench: Bench) -> None:
    bench.add(a=1)
    bench.fill("a", 100)
    assert bench.sealed()
    assert answer(bench, "a") is None
    assert waits(bench, "a") == 1


@needs_redis
def test_nothing_is_added_to_what_is_of_another_history(own: tuple[Bench, Server]) -> None:
    bench, server = own
    bench.add(a=1)
    before = bench.hash(slot_of("a"), 0)
    assert add_only(bench, "a")
    bench.fill("a", 100)
    change_history(server)
    # The server knows its last history, too, and calls it the second one.
    assert server("INFO", "replication")["master_replid2"] == before["\0t"]
    assert not add_only(bench, "a")
    assert answer(bench, "a") is None
    assert bench.hash(slot_of("a"), 0) == {**before, "a": "2"}
    bench.add(a=5)
    assert add_only(bench, "a")
    assert bench.hash(slot_of("a"), 0)["a"] == "6"


@needs_redis
def test_a_server_that_is_full_adds_nothing(own: tuple[Bench, Server]) -> None:
    bench, server = own
    bench.add(a=1)
    server("CONFIG", "SET", "maxmemory-policy", "noeviction", "maxmemory", "1")
    with pytest.raises(Exception, match="OOM"):
        add_only(bench, "a")
    server("CONFIG", "SET", "maxmemory", "0")
    assert waits(bench, "a") == 1


@pytest.mark.parametrize("seed", range(4))
def test_no_step_tells_it_from_the_other_way(bench: Bench, seed: int) -> None:
    chance = random.Random(seed)
    twin, sums = Bench(os.environ["REDIS_URL"]), dict[str, int]()
    for _ in range(100):
        name, by = chance.choice("abcdefgh"), chance.choice([1, 1, -1, 7, LARGEST, -LARGEST])
        if not add_only(bench, name, by):
            bench.add(**{name: by})
        twin.add(**{name: by})
        sums[name] = sums.get(name, 0) + by
        if chance.random() < 0.1:
            cut: list[Any] = [
                sorted((one.slot, one.place) for one in b.sealed()) for b in (bench, twin)
            ]
            assert cut[0] == cut[1]
    assert {name: waits(bench, name) for name in sums} == sums
    assert {name: waits(twin, name) for name in sums} == sums
    twin.close()
