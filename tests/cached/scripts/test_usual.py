"""The usual case of ``add`` does what ``add`` does: both are given the same, step by step."""

from __future__ import annotations

import os
import random
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
import redis

from django_counters.cached.requests import ACKNOWLEDGE, ADD, CUT, FILL
from django_counters.redis.commands import Script
from django_counters.redis.keys import SlotKeys, proposed

COUNTERS = [f"views:{number}" for number in range(6)]
MINUTE = 60_000
STEPS = 60
# A double does not have it.
ODD = 2**55 + 1
# Leases, times and turns.
OF_A_MOMENT = ("\0v", "\0m", "\0a")
ENDED = ((0,), (1,), (0, 1))


class Twin:
    """Slots 0 and 1 of a part of a Redis of its own."""

    def __init__(self, server: Any, add: Script) -> None:
        slots = SlotKeys("default", secrets.token_hex(6))
        self.keys = [slots.keys(slot) for slot in range(2)]
        self.server = server
        self.add_script = add

    def run(self, script: Script, keys: tuple[str, ...], *words: Any) -> Any:
        return self.server.eval(script.text, len(keys), *keys, *words)

    def add(self, age: int, *parts: tuple[int, str, dict[str, int], dict[str, int]]) -> Any:
        """Add to counters and to cells of slots."""
        keys = tuple(key for slot, *_ in parts for key in self.keys[slot])
        words: list[Any] = [age]
        for _, generation, deltas, cells in parts:
            words += [generation, len(deltas), len(cells)]
            words += [w for part in (deltas, cells) for pair in part.items() for w in pair]
        try:
            return [
                _timeless(line) for line in self.run(self.add_script, keys, *words).splitlines()
            ]
        except redis.ResponseError as error:
            return str(error)

    def fill(self, slot: int, generation: str, totals: dict[str, int]) -> None:
        """Under the present lease, as of now."""
        lease = self.server.hget(self.keys[slot][1], "\0v") or "none"
        now = self.server.time()[0] * 1000
        triples = [word for key, total in totals.items() for word in (key, total, now)]
        self.run(FILL, self.keys[slot], generation, lease, *triples)

    def contents(self) -> list[dict[str, str]]:
        """All that is kept, without leases, times and turns."""
        with self.server.pipeline(transaction=False) as together:
            for key in (key for keys in self.keys for key in keys):
                together.hgetall(key)
            kept = together.execute()
        return [
            {name: value for name, value in one.items() if name[:2] not in OF_A_MOMENT}
            for one in kept
        ]


def _timeless(line: str) -> list[str]:
    """An answer without the age of its total, or without its lease and times."""
    words = line.split(" ")
    return ["?", words[3], *words[5:]] if words[0] in "?!" else words[1:]


@pytest.fixture
def server() -> Iterator[Any]:
    with redis.Redis.from_url(os.environ["REDIS_URL"], decode_responses=True) as client:
        yield client


@pytest.fixture
def twins(server: Any) -> Iterator[tuple[Twin, Twin]]:
    """One with the usual case, one without."""
    head, rest = ADD.text.split("-- What all verbs share", 1)
    actors, usual = head.split("-- The usual case", 1)
    assert "local function one" in usual
    both = Twin(server, ADD), Twin(server, Script(f"{actors}-- What all verbs share{rest}"))
    yield both
    for twin in both:
        server.delete(*(key for keys in twin.keys for key in keys))


def both(twins: tuple[Twin, Twin], step: Callable[[Twin], Any]) -> Any:
    """Take a step with each; it must make no difference."""
    mine, theirs = map(step, twins)
    assert mine == theirs
    assert twins[0].contents() == twins[1].contents()
    return mine


@pytest.mark.parametrize("seed", range(5))
def test_no_step_tells_them_apart(twins: tuple[Twin, Twin], seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(STEPS):
        both(twins, _step(chance))


def _step(chance: random.Random) -> Callable[[Twin], Any]:
    generations = [proposed(slot) for slot in range(2)]
    slots = chance.choice([[0], [0], [1], [0, 1]])
    deltas = {
        slot: {
            key: chance.choice([1, 1, 7, -3, 10**13, 2**52, ODD, -ODD, -(2**61)])
            for key in chance.sample(COUNTERS, chance.choice([1, 1, 1, 3]))
        }
        for slot in slots
    }
    cells = {
        slot: {
            f"#1.2.{start} DE {key}": chance.choice([by, 1, 2**61])
            for key, by in deltas[slot].items()
            for start in chance.sample([3600, 7200], chance.choice([0, 0, 1, 2]))
        }
        for slot in slots
    }
    for slot in slots:
        cells[slot].update(_actors(chance, next(iter(deltas[slot]))))
    parts = [(slot, generations[slot], deltas[slot], cells[slot]) for slot in slots]
    age = chance.choice([MINUTE, MINUTE, MINUTE, 0, -1])
    totals = {key: chance.choice([5, -1, 10**18]) for key in COUNTERS}
    slot, ended, soon = slots[0], chance.choice(ENDED), int(time.time() * 1000) - 50_000
    steps: dict[str, Callable[[Twin], Any]] = {
        "add": lambda twin: twin.add(age, *parts),
        "fill": lambda twin: twin.fill(slot, generations[slot], totals),
        "cut": lambda twin: _cut(twin, slot, generations[slot]),
        "land": lambda twin: _land(twin, slot, generations[slot]),
        "restart": lambda twin: _restart(twin, slot, ended),
        "grow old": lambda twin: _grow_old(twin, slot, 1),
        "grow old soon": lambda twin: _grow_old(twin, slot, soon),
    }
    return steps[chance.choices(list(steps), [12, 3, 1, 2, 1, 1, 1])[0]]


def _actors(chance: random.Random, key: str) -> dict[str, int]:
    """None, a few, or a crowd, of whom some come again."""
    number = chance.choice([0, 0, 1, 3, 300])
    members = (chance.choice([1, 2**14, 2**40]) * chance.randrange(1, 2000) for _ in range(number))
    return {f"#1.3.3600.{member} DE {key}": 1 for member in members}


def _cut(twin: Twin, slot: int, generation: str) -> Any:
    return twin.run(CUT, twin.keys[slot], generation, 2**50)


def _land(twin: Twin, slot: int, generation: str) -> None:
    for place in twin.keys[slot][2:]:
        if sealed := twin.server.hget(place, "\0g"):
            twin.run(ACKNOWLEDGE, twin.keys[slot], generation, sealed)


def _restart(twin: Twin, slot: int, ended: Sequence[int]) -> None:
    """The open generation, the known totals, or both are of a history that has ended."""
    for key in (twin.keys[slot][place] for place in ended):
        if twin.server.exists(key):
            twin.server.hset(key, "\0t", "0" * 40)


def _grow_old(twin: Twin, slot: int, asked: int) -> None:
    """All known totals were asked for at a moment of long ago."""
    base = twin.keys[slot][1]
    for name in twin.server.hkeys(base):
        if name.startswith("\0m"):
            twin.server.hset(base, name, asked)


def _warm(twins: tuple[Twin, Twin], deltas: dict[str, int]) -> None:
    """Count once, so that totals can be filled in; then they are known."""
    generation = proposed(0)
    both(twins, lambda twin: twin.add(MINUTE, (0, generation, deltas, {})))
    both(twins, lambda twin: twin.fill(0, generation, dict.fromkeys(deltas, 10)))


@pytest.mark.parametrize("keys", [COUNTERS[:1], COUNTERS])
def test_the_usual_case_is_taken(twins: tuple[Twin, Twin], keys: list[str]) -> None:
    usual, plain = twins
    deltas = dict.fromkeys(keys, 1)
    _warm(twins, deltas)
    # Somebody else may use the server meanwhile, which only adds to them.
    assert any(_given(usual, deltas) <= 6 for _ in range(1000))
    cells = {f"#1.2.3600 DE {key}": 1 for key in keys}
    # A cell that is new makes it look how much is there.
    assert any(_given(usual, deltas, cells) <= 7 for _ in range(1000))
    # Where nothing is asked for it does not matter whether totals are known, or what is sealed.
    _cut(usual, 0, proposed(0))
    assert any(_given(usual, deltas, cells, -1) <= 5 for _ in range(1000))
    assert min(_given(plain, deltas) for _ in range(20)) > 6


@pytest.mark.parametrize("total", [0, ODD, -ODD, -ODD - 4, 2**53, 10])
@pytest.mark.parametrize("by", [ODD, -ODD, 2**53 + 1, 3])
def test_what_is_known_grows_exactly(twins: tuple[Twin, Twin], total: int, by: int) -> None:
    twin, generation = twins[0], proposed(0)
    twin.add(MINUTE, (0, generation, {"views:grows": by}, {}))
    _cut(twin, 0, proposed(0))
    twin.add(MINUTE, (0, generation, {"views:grows": 1}, {}))
    twin.fill(0, generation, {"views:grows": total})
    _land(twin, 0, proposed(0))
    assert twin.server.hget(twin.keys[0][1], "views:grows") == str(total + by)


def _given(
    twin: Twin, deltas: dict[str, int], cells: dict[str, int] | None = None, age: int = MINUTE
) -> int:
    """How many commands the server has executed meanwhile: for us, and for whoever uses it."""
    before = _calls(twin.server)
    twin.add(age, (0, proposed(0), deltas, cells or {}))
    return _calls(twin.server) - before


def _calls(server: Any) -> int:
    """How many commands scripts have given, at most."""
    return sum(
        stats["calls"]
        for name, stats in server.info("commandstats").items()
        if name not in ("cmdstat_eval", "cmdstat_config|resetstat", "cmdstat_info")
    )
