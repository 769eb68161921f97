"""Processes of three regions: one of each counts and two exchange, while regions come and go."""

from __future__ import annotations

import random
import time
from collections import Counter as Tally
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.db import connections

from django_counters.contrib.regions.models import CounterRegion
from django_counters.contrib.regions.publishing import publish
from django_counters.contrib.regions.pulling import pull
from django_counters.errors import InsufficientCount
from django_counters.models import (
    Counter,
)
from django_counters.testing import override_counters
from tests.concurrency.crowd import FORKS

DATABASES = {"eu": "default", "us": "other", "ap": "third"}
REGIONS = tuple(DATABASES)
NAMESPACES: dict[str, dict[str, Any]] = {
    "likes": {"REGIONAL": True},
    "hits": {"REGIONAL": True, "STRATEGY": "sharded"},
    "sales": {"REGIONAL": True, "STRATEGY": "ledger"},
}
KEYS = [f"{namespace}:x" for namespace in NAMESPACES]
# One stock, which comes to the regions that have little of it by itself.
NAMESPACES["seats"] = {"REGIONAL": True, "FLOOR": 0, "TOP_UP": 20}
STOCK = 1000
# How much one region sells in each phase: something is left for the last one.
MOST_SOLD = 60
# Which regions know each other, one after the other: a new one comes, one is taken out, and back.
PHASES: tuple[tuple[str, ...], ...] = (
    ("eu us", "ap"),
    ("eu us ap",),
    ("eu ap", "us"),
    ("eu us ap",),
)
EXCHANGERS = 2
CROWD = len(REGIONS) * (1 + EXCHANGERS) + 1
PATIENCE = 120


@dataclass
class Board:
    """Memory that all share; each writes to its own place only.

    Attributes:
        phase: which of the phases it is; one more: it is over.
        turns: how many turns each process has taken in a phase.
    """

    phase: Any
    turns: Any

    @classmethod
    def new(cls) -> Board:
        """At the first phase."""
        return cls(FORKS.RawValue("i", 0), FORKS.RawArray("q", CROWD * len(PHASES)))

    @property
    def is_over(self) -> bool:
        """Whether all end."""
        return bool(self.phase.value == len(PHASES))

    def took(self, number: int, phase: int) -> None:
        """Write down a turn."""
        self.turns[phase * CROWD + number] += 1

    def let(self, phase: int, turns: int) -> None:
        """Wait until all but the last process have taken turns in a phase."""
        first = phase * CROWD
        deadline = time.monotonic() + PATIENCE
        while min(self.turns[first : first + CROWD - 1]) < turns:
            assert time.monotonic() < deadline, list(self.turns)
            time.sleep(0.01)


def known(region: str, phase: int) -> dict[str, str]:
    """The databases of those that a region knows in a phase."""
    (group,) = (group for group in PHASES[phase] if region in group)
    return {other: DATABASES[other] for other in group.split() if other != region}


def among_regions(number: int, board: Board, names: Mapping[str, str]) -> Mapping[str, int]:
    """Count, exchange or lead; what one has done."""
    for alias, name in names.items():
        if alias not in connections.settings:
            connections.settings[alias] = {**connections["default"].settings_dict}
        connections[alias].settings_dict["NAME"] = name
    settings.COUNTERS_REGION = region = REGIONS[number % len(REGIONS)]
    with override_counters(**NAMESPACES):
        if number == CROWD - 1:
            return _lead(board)
        act: Callable[[str, random.Random], Mapping[str, int]]
        act = _count if number < len(REGIONS) else _exchange
        chance, done = random.Random(number), Tally[str]()
        while not board.is_over:
            phase = board.phase.value
            settings.COUNTERS_REGIONS = known(region, phase)
            done.update(act(region, chance))
            if number < len(REGIONS) and done[f"{region} sold"] < MOST_SOLD * (phase + 1):
                done[f"{region} sold"] += sold(region, chance.randint(1, 3))
            board.took(number, phase)
        return done


def _count(region: str, chance: random.Random) -> Mapping[str, int]:
    key, by = chance.choice(KEYS), chance.randint(1, 9)
    Counter.objects.increment(key, by, using=DATABASES[region])
    # Slower than those who exchange.
    time.sleep(chance.random() * 0.01)
    return {f"{region} {key}": by}


def sold(region: str, amount: int) -> int:
    """Sell some seats, or none where the region has fewer; how many."""
    try:
        Counter.objects.decrement("seats:x", amount, using=DATABASES[region])
    except InsufficientCount:
        return 0
    return amount


def _exchange(region: str, _chance: random.Random) -> Mapping[str, int]:
    """A turn in the middle of which the phase may change for others."""
    using = DATABASES[region]
    done = [publish(using), *pull(using).values()]
    problems = [one.problem for one in done if one.problem]
    assert not problems, problems
    return {
        "busy": sum(one.busy for one in done),
        "entries": sum(one.entries for one in done),
        f"{region} received": sum(one.received for one in done),
    }


def _lead(board: Board) -> Mapping[str, int]:
    """Go from phase to phase. What is known of a region that is taken out stays in the values."""
    for phase in range(len(PHASES)):
        board.let(phase, 6)
        if phase == 2:
            before = _of_us()
            # Others publish and copy meanwhile, and it counts on.
            board.let(phase, 12)
            assert _of_us() == before
            assert min(map(sum, before)) > 0, before
        board.phase.value += 1
    return {}


def _of_us() -> list[list[int]]:
    """What the others have of the region that was taken out."""
    found = []
    for region in ("eu", "ap"):
        rows = CounterRegion._base_manager.using(DATABASES[region]).filter(region="us")
        values = dict(rows.order_by("key").values_list("key", "value"))
        found.append([values.get(key, 0) for key in KEYS])
    return found
