"""Whether async code can count without a thread: Redis is asked from the event loop itself."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from asgiref.sync import AsyncToSync

from django_counters.registry import registry
from django_counters.tables.standing import COUNTERS
from django_counters.write.collector import collector_of


def is_native(keys: object, using: str | None, *, writes: bool) -> bool:
    """Whether all of these are cached, and nothing of synchronous code comes into it.

    What other databases count, too, is read by the app that spreads it.
    """
    if within_synchronous_code() or not isinstance(keys, Iterable):
        # That code may have a transaction open, which only its own thread can see.
        return False
    if collector_of(COUNTERS.writing(using) if writes else COUNTERS.reading(using)) is not None:
        return False
    names = list(keys)
    return bool(names) and all(
        policy.recipe.can.outside and (writes or policy.spread is None)
        for policy in map(registry.policy, (key for key in names if isinstance(key, str)))
    )


def within_synchronous_code() -> bool:
    """Whether a thread waits for this event loop, and runs what we would give to a thread."""
    waiting = getattr(AsyncToSync, "loop_thread_executors", None)
    current = getattr(getattr(AsyncToSync, "executors", None), "current", None)
    return waiting is None or current is not None or asyncio.get_running_loop() in waiting
