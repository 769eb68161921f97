"""Landed increments leave Redis before other regions are told of them."""

from __future__ import annotations

from django_counters.registry import registry
from django_counters.upkeep.sources import sources


def settle(using: str) -> None:
    """Remove all from Redis that has landed by now.

    A region may learn back all that it has published, after a restore. What still waits in Redis
    then lands after the restore. So nothing may be in both places.

    Raises:
        CounterUnavailable: a Redis cannot be reached, and may hold what has landed.
        InvalidConfiguration: a cache of cached counters is no Redis.
    """
    for pending in sources(using):
        if not any(slot.sealed for slot in pending.waiting()):
            continue
        sealed = [one for cut in pending.cut() for one in cut.sealed]
        landed = registry.batches(using).known([one.generation for one in sealed])
        done = [one for one in sealed if one.generation in landed]
        # First: what Redis knows of totals may lack what the landing has refused.
        pending.acknowledge({}, {one.slot for one in done})
        pending.acknowledge(dict.fromkeys(done, ()))
