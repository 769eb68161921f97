"""Threads whose increments are combined, one of them held in its statement until all wait."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from typing import Any

from django.db import connection

from django_counters.models import Counter
from django_counters.registry import registry
from django_counters.stores.sql.tables import NAMED
from django_counters.strategies.combining import Combining

COMBINED = {"OPTIONS": {"combine": True}}
PATIENCE = 30
Execute = Callable[..., Any]


def combining(using: str = "default") -> Combining:
    """The one that all threads of this process share for the namespace ``c``."""
    strategy = registry.strategy(registry.policy("c:").recipe, NAMED, using)
    assert isinstance(strategy, Combining)
    return strategy


def until(condition: Callable[[], bool], what: str) -> None:
    """Wait until ``condition`` holds."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, f"{what} did not happen"
        time.sleep(0.001)


class Queue:
    """A leader that is held before its statement, and those who came after it, in order."""

    def __init__(self, pool: ThreadPoolExecutor) -> None:
        self._pool = pool
        self._held = threading.Event()
        self._go = threading.Event()
        self.idents: list[int] = []
        self.leader = self._submit(lambda: Counter.objects.increment("c:leader"), self._hold)
        assert self._held.wait(PATIENCE)

    def join(self, key: str, by: int = 1, wrapper: Execute | None = None) -> Future[Any]:
        """Start an increment in a thread; it waits in the queue when this returns.

        The first that joins leads all the others, on its connection with its ``wrapper``.
        """
        place = len(combining()._waiting) + 1
        future = self._submit(lambda: Counter.objects.increment(key, by), wrapper)
        until(lambda: len(combining()._waiting) == place, f"waiting in place {place}")
        return future

    def release(self) -> None:
        """Let the leader go on."""
        self._go.set()

    def _hold(self, execute: Execute, *arguments: Any) -> Any:
        self._held.set()
        assert self._go.wait(PATIENCE)
        return execute(*arguments)

    def _submit(self, call: Callable[[], Any], wrapper: Execute | None) -> Future[Any]:
        def work() -> Any:
            self.idents.append(threading.get_ident())
            try:
                connection.ensure_connection()
                with connection.execute_wrapper(wrapper) if wrapper else nullcontext():
                    return call()
            finally:
                connection.close()

        return self._pool.submit(work)


@contextmanager
def queue() -> Iterator[Queue]:
    """A queue, which is let go on at the end."""
    with ThreadPoolExecutor(32) as pool:
        made = Queue(pool)
        try:
            yield made
        finally:
            made.release()


def outcome(future: Future[Any]) -> Any:
    """The value that a call returned, or the type of the error that it raised."""
    error = future.exception(PATIENCE)
    return future.result() if error is None else type(error)
