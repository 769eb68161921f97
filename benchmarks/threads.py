"""Threads of this process that count at the same time, each on a connection of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Barrier

from django.db import connection

from benchmarks.harness import Sample, Side
from benchmarks.writers import ANSWERS_WITHIN, Done, Order, follow, together


class Threads:
    """The threads, as those who give them orders see them."""

    def __init__(self, count: int, pool: ThreadPoolExecutor) -> None:
        self._count = count
        self._pool = pool
        self._start = Barrier(count)

    def side(self, action: Callable[[], object], seconds: float) -> Side:
        """A side in which all threads call ``action``."""

        def run() -> Sample:
            return together(self.each(lambda: follow(Order(action, seconds))))

        return run

    def each(self, work: Callable[[], Done]) -> list[Done]:
        """Let every thread do the work once, all from the same moment."""

        def wait_and_work() -> Done:
            self._start.wait(ANSWERS_WITHIN)  # keeps a quick thread from taking two
            return work()

        futures = [self._pool.submit(wait_and_work) for _ in range(self._count)]
        return [future.result() for future in futures]


@contextmanager
def threads(count: int) -> Iterator[Threads]:
    """Start ``count`` threads that are connected to the database, and end them."""

    def leave() -> Done:
        connection.close()
        return Done(0, 0.0, 0.0)

    with ThreadPoolExecutor(count, initializer=connection.ensure_connection) as pool:
        team = Threads(count, pool)
        try:
            yield team
        finally:
            team.each(leave)
