"""Whether async code can count without a thread: Redis is asked from the event loop itself."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable
from concurrent.futures import Executor

from asgiref.sync import AsyncToSync
from django.core.exceptions import SynchronousOnlyOperation

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


def hand_over(work: Callable[[], object]) -> None:
    """Let the thread that waits for this event loop do it next. This does not wait: the thread may
    wait for us.

    Raises:
        SynchronousOnlyOperation: no such thread can be found.
        RuntimeError: it waits no more.
    """
    current = getattr(getattr(AsyncToSync, "executors", None), "current", None)
    waiting = getattr(AsyncToSync, "loop_thread_executors", {})
    found: Executor | None = current or waiting.get(asyncio.get_running_loop())
    if found is None:
        raise SynchronousOnlyOperation("Which thread waits for this event loop is not known.")
    found.submit(work)


def has_to_be_async() -> bool:
    """Whether this is an event loop, in which Django forbids the use of the database."""
    return in_event_loop() and not os.environ.get("DJANGO_ALLOW_ASYNC_UNSAFE")


def in_event_loop() -> bool:
    """Whether to wait here would keep all others of an event loop waiting."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
