"""Exact values of many named counters, and their parts."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import NamedTuple

from django_counters import clock
from django_counters.errors import CounterUnavailable
from django_counters.read.values import reading_alias
from django_counters.registry import registry
from django_counters.stores.sql.outbox import SqlLanded
from django_counters.stores.sql.tables import NAMED
from django_counters.strategies.base import Outside
from django_counters.types import Amounts, Reading
from django_counters.write.collector import collector_of

# How many counters are asked for at once: a script keeps a Redis from other work.
_PAGE = 2000
_NOTHING = Amounts(None, 0)


class PendingReading(NamedTuple):
    """The amount that waits in Redis for counters, generation by generation, and whom it cannot be
    told of."""

    amounts: Mapping[Hashable, Sequence[tuple[str, int]]]
    away: frozenset[str]

    def generations(self) -> list[str]:
        """All generations, in one order."""
        return sorted({generation for found in self.amounts.values() for generation, _ in found})

    def of(self, key: str, landed: frozenset[str]) -> int:
        """The amount that waits for one counter, without what has landed meanwhile."""
        return sum(by for generation, by in self.amounts.get(key, ()) if generation not in landed)


def readings_of(keys: Iterable[str], using: str | None = None) -> dict[str, Reading]:
    """Read many counters: one query, after one round trip to each Redis that holds some of them.

    The consistency of each is ``"exact"``, or ``"landed"`` where its Redis cannot be reached: the
    amount that waits there is then missing. A counter that was never counted is zero. Keys are
    taken as they
    are: a row that was made by hand can be shown, too.

    Raises:
        CounterUnavailable: the database cannot be reached.
    """
    names = list(dict.fromkeys(keys))
    groups: dict[str, list[str]] = {}
    for name in names:
        groups.setdefault(reading_alias(registry.policy(name), using), []).append(name)
    readings: dict[str, Reading] = {}
    for alias, group in groups.items():
        for start in range(0, len(group), _PAGE):
            readings.update(_page(group[start : start + _PAGE], alias))
    return {name: readings[name] for name in names}


def _page(names: Sequence[str], alias: str) -> dict[str, Reading]:
    as_of = clock.now()
    # Redis first: what lands meanwhile is then told from what does not.
    waiting = _waiting(names, alias)
    store = SqlLanded(NAMED, alias)
    amounts, landed = store.read_landed(names, waiting.generations())
    collector = collector_of(alias)
    readings: dict[str, Reading] = {}
    for name in names:
        total, pending = amounts.get(name, _NOTHING)
        pending += waiting.of(name, landed) + (collector.owed(name) if collector else 0)
        consistency = "landed" if name in waiting.away else "exact"
        value = (total or 0) + pending
        readings[name] = Reading(value, total or 0, pending, as_of, consistency)
    return readings


def _waiting(names: Iterable[str], alias: str) -> PendingReading:
    groups: dict[str, list[str]] = {}
    asked: dict[str, Outside] = {}
    for name in names:
        recipe = registry.policy(name).recipe
        strategy = registry.outside(recipe, NAMED, alias)
        if strategy:
            asked[recipe.cache] = strategy
            groups.setdefault(recipe.cache, []).append(name)
    amounts: dict[Hashable, Sequence[tuple[str, int]]] = {}
    away: set[str] = set()
    for cache, group in groups.items():
        try:
            amounts.update(asked[cache].waits(group))
        except CounterUnavailable:
            away.update(group)
    return PendingReading(amounts, frozenset(away))
