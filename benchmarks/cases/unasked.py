"""Cached increments that return nothing, compared with those that return their value.

The time of the server is what it says itself of scripts that it has run (``INFO commandstats``):
so it does not hold what a request takes before and after its script.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import count
from typing import Any

from benchmarks.cases.cached import SLICE, client
from benchmarks.harness import Pair, Sample, Side, Work, adds_up
from benchmarks.inspection import increment, value
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
def hot() -> Iterator[Pair]:
    """One counter of each kind, again and again."""
    number = next(_numbers)
    mine, theirs = (f"{space}:asked{number}" for space in SPACES)
    with client() as server:
        clock = of_scripts(server)
        verify = adds_up(value(mine), value(theirs))
        yield Pair(_side(clock, mine), _side(clock, theirs), verify)


CASES: Mapping[str, Work] = {
    "cached-nothing": Work(hot),
}
