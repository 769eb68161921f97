"""How many nodes skewed traffic needs, and what to divide so that each can carry its part."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from benchmarks.capacity.costs import Capacity
from benchmarks.capacity.model import Load, Plan, Strategy, plan
from benchmarks.hot_keys import Remedy, busiest, pieces, shares
from django_counters.stores.redis.keys import SLOTS

AS_IT_COMES = 2  # nodes up to which slots stay where they are
# A node has so many slots, and what is counted as one is no more than such a part of its work.
# Less is uneven, because keys go to slots by chance.
GRAIN = 4
ROUNDS = 50


class NotSettled(Exception):
    """More nodes were less even, again and again."""


@dataclass(frozen=True)
class Settled:
    """A plan whose nodes carry the load as it is skewed.

    Attributes:
        plan: what it takes; its caches are those of the remedy.
        remedy: how counters are divided among nodes.
        spread: how much more the busiest node has to do than the mean.
        divided: how many counters have to be divided by hand.
    """

    plan: Plan
    remedy: Remedy
    spread: float
    divided: int


def settled(load: Load, strategy: Strategy, costs: Capacity, skew: float) -> Settled:
    """Plan again with what the busiest node has to do, until that is what was planned for.

    Raises:
        NotMeasured: a cost is missing that decides.
        NotSettled: there is no such plan within some rounds.
    """
    for _ in range(ROUNDS):
        took = plan(load, strategy, costs)
        remedy = _remedy(load, took)
        spread = _spread(load, took, remedy, skew)
        if spread <= load.spread:
            return _settled(load, replace(took, caches=remedy.caches), remedy, skew)
        load = replace(load, spread=spread)
    raise NotSettled(f"{took.redis_nodes} nodes have a busiest one of {spread:.2f} times the mean")


def _remedy(load: Load, took: Plan) -> Remedy:
    """What makes so many nodes about even."""
    largest = 1.0 if took.one_counter is None else min(1.0, took.one_counter / load.peak)
    if took.redis_nodes <= AS_IT_COMES:
        return Remedy("as it comes", largest=largest, caches=took.caches)
    grains = GRAIN * took.redis_nodes
    caches = max(took.caches, math.ceil(grains / SLOTS))
    return Remedy("placed", largest=min(largest, 1 / grains), caches=caches, placed=True)


def _spread(load: Load, took: Plan, remedy: Remedy, skew: float) -> float:
    if took.redis_nodes <= 1:
        return 1.0
    return busiest(skew, took.redis_nodes, remedy, int(load.counters))


def _settled(load: Load, took: Plan, remedy: Remedy, skew: float) -> Settled:
    every = shares(skew, int(load.counters))
    divided = sum(share > remedy.largest for share in every)
    parts = pieces(every[0], remedy.largest)
    return Settled(replace(took, parts=parts), remedy, load.spread, divided)
