"""Cached counters of processes that land together, while all that can go wrong does."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from django_counters.exceptions import CounterUnavailable, OutcomeUnknown
from django_counters.models import Counter, CounterIncident
from django_counters.strategies.cached import Cached
from django_counters.write.adopting import adopt
from django_counters.write.buffer import Buffer
from django_counters.write.buffer import _here as landing
from tests.write.buffering import landed
from tests.write.filing import _inner, _root  # noqa: F401 - fixtures
from tests.write.leaders import another, own, turn

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("cached"),
    pytest.mark.parametrize("inner", ["cached"], indirect=True),
]
STEPS = 120


class World:
    """One process that is read, and four more, of which some are killed."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        # Nobody but the one that is read counts the first two.
        self.sums = {f"hits:{number}": 0 for number in range(8)}
        self.crew = [own(), *(another() for _ in range(4))]
        # How often something goes wrong.
        self.trouble = 0.25
        self._is_between = False

    def send(self, land: Callable[..., bool], *arguments: Any) -> bool:
        """Land in Redis, or not; the answer may be lost, and others come before it."""
        drawn = self.chance.random()
        if drawn < self.trouble / 3:
            raise CounterUnavailable(using="default", reason="away")
        if drawn > 1 - self.trouble and not self._is_between:
            self._is_between = True
            self._between()
            self._is_between = False
        found = land(*arguments)
        if drawn < self.trouble:
            raise OutcomeUnknown(using="default")
        return found

    def unlink(self, unlink: Callable[..., None], *arguments: Any, **given: Any) -> None:
        """Remove a file, or fail."""
        if self.chance.random() < self.trouble:
            raise PermissionError
        unlink(*arguments, **given)

    def _between(self) -> None:
        one: Any = self.chance.choice(self.crew)
        # Not the one that sends just now. All are in one thread here, and none hears of it.
        if not one.landing._is_owned():
            lands, landing.lands = landing.lands, False
            try:
                self._let(one, impatient=True)
            finally:
                landing.lands = lands
        self.check()

    def _let(self, one: Buffer, *, impatient: bool) -> None:
        """Let a process land: when that is due, or at once."""
        if impatient:
            one._patience = time.monotonic()
        if self.chance.random() < 0.8:
            turn(one)
        else:
            with suppress(CounterUnavailable, OutcomeUnknown):
                one.flush()

    def step(self) -> None:
        """Let one process count, land or die."""
        number, drawn = self.chance.randrange(len(self.crew)), self.chance.random()
        if drawn < 0.5:
            for _ in range(self.chance.randint(1, 3)):
                self._count(number)
        elif drawn < 0.93 or number == 0:
            self._let(self.crew[number], impatient=self.chance.random() < 0.3)
        else:
            self._kill(number)
        self.check()

    def _count(self, number: int) -> None:
        key = self.chance.choice(list(self.sums)[2 if number else 0 :])
        by = self.chance.choice([1, 2, -1, -2, 5])
        assert self.crew[number].add(key, by)
        self.sums[key] += by

    def _kill(self, number: int) -> None:
        one, self.crew[number] = self.crew[number], another()
        home = one.files._home if one.files else None
        one.begin()
        if home:
            home.release()
        if self.chance.random() < 0.5:
            adopt()

    def check(self) -> None:
        """A process reads what it has counted, wherever that is."""
        read = Counter.objects.values_of(list(self.sums)[:2])
        assert all(read.get(key, 0) == self.sums[key] for key in list(self.sums)[:2])

    def end(self) -> None:
        """All land what they have, and nothing goes wrong any more."""
        self.trouble = 0
        for one in self.crew:
            one.flush()
        report = adopt()
        assert (report.strange, report.failed) == ({}, {})


@pytest.mark.parametrize("seed", range(4))
def test_each_increment_counts_once(monkeypatch: Any, seed: int) -> None:
    world, land, unlink = World(seed), Cached.land, Path.unlink
    monkeypatch.setattr(Cached, "land", lambda *given: world.send(land, *given))
    monkeypatch.setattr(Path, "unlink", lambda *given, **also: world.unlink(unlink, *given, **also))
    for _ in range(STEPS):
        world.step()
    world.end()
    assert {key: landed(key) for key in world.sums} == world.sums
    assert not CounterIncident.objects.exists()
