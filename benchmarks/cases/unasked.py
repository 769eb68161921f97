"""Cached increments that return nothing, compared with those that return their value.

The time of the server is what it says itself of scripts that it has run (``INFO commandstats``):
so it does not hold what a request takes before and after its script.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from itertools import count, islice
from typing import Any

from benchmarks.cases.cached import SLICE, client
from benchmarks.harness import Pair, Sample, Side, Work, adds_up
from benchmarks.inspection import increment, value
from django_counters.intake.flush import flush
from django_counters.models import Counter

SPACES = ("blind", "pages")
_numbers = count()

Clock = Callable[[], float]


def of_scripts(server: Any) -> Clock:
    """Seconds that a server has spent on scripts."""

    def seconds() -> float:
        told = server.info("commandstats").get("cmdstat_evalsha", {})
        return float(told.get("usec", 0)) / 1e6

    return seconds


def _side(clock: Clock, key: str) -> Side:
    def side() -> Sample:
        # Redis knows a total for a minute; to ask for it again is not what is compared.
        Counter.objects.values_of([key], consistency="cached", max_age=0)
        started = clock()
        for _ in range(SLICE):
            increment(key)
        return Sample(SLICE, clock() - started)

    return side


@contextmanager
def hot(on_the_server: bool) -> Iterator[Pair]:
    """One counter of each kind, again and again."""
    number = next(_numbers)
    mine, theirs = (f"{space}:asked{number}" for space in SPACES)
    with client() as server:
        clock = of_scripts(server) if on_the_server else time.perf_counter
        verify = adds_up(value(mine), value(theirs))
        yield Pair(_side(clock, mine), _side(clock, theirs), verify)


@contextmanager
def cold() -> Iterator[Pair]:
    """Another counter each time, of which Redis knows nothing."""
    flush()
    number = next(_numbers)
    sides = [_News(f"{space}:cold{number}-") for space in SPACES]
    yield Pair(sides[0], sides[1], adds_up(sides[0].stored, sides[1].stored))


class _News:
    """Counts new keys; a side that knows what it has counted."""

    def __init__(self, begin: str) -> None:
        self._names = (f"{begin}{number}" for number in count())
        self._used: list[str] = []

    def __call__(self) -> Sample:
        keys = list(islice(self._names, SLICE))
        self._used += keys
        started = time.perf_counter()
        for key in keys:
            increment(key)
        return Sample(SLICE, time.perf_counter() - started)

    def stored(self) -> int:
        return sum(Counter.objects.values_of(self._used).values())


CASES: Mapping[str, Work] = {
    "cached-nothing": Work(partial(hot, True)),
    "cached-nothing-wall": Work(partial(hot, False)),
    "cached-nothing-cold": Work(cold),
}
