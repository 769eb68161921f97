"""Clients that go on when they are told to, so that who comes in between is no matter of luck."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

from django.db import connection, connections

T = TypeVar("T")
# What a client does; it stops where it yields.
Work = Generator[None, None, None]
# For how long another client may be busy (seconds): far longer than any of this takes.
PATIENCE = 60.0
PAUSE = 0.01


class Actor:
    """One client: a thread, and a connection to the database that nobody else has."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self._pool = ThreadPoolExecutor(1)
        self._pid = self._do(_backend)

    def goes_on(self) -> bool:
        """Let it work as far as its next yield; True where there is one. Raises what it raises."""
        return self._do(self._step)

    def begins(self) -> Future[bool]:
        """The same, but return as soon as it waits for what another client holds."""
        future = self._pool.submit(self._step)
        deadline = time.monotonic() + PATIENCE
        while not future.done() and not _is_blocked(self._pid):
            if time.monotonic() > deadline:
                raise TimeoutError("it neither ends nor waits for anybody")
            time.sleep(PAUSE)
        return future

    def ends(self) -> None:
        """Let it work to its end."""
        while self.goes_on():
            pass

    def leaves(self) -> None:
        """Let it go where it stands, as a client that was killed: what is open is rolled back."""
        self._do(self._work.close)
        self._do(connections.close_all)
        self._pool.shutdown()

    def _do(self, call: Callable[[], T]) -> T:
        return self._pool.submit(call).result(PATIENCE)

    def _step(self) -> bool:
        try:
            next(self._work)
        except StopIteration:
            return False
        return True


def _backend() -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        (pid,) = cursor.fetchone()
    return int(pid)


def _is_blocked(pid: int) -> bool:
    with connection.cursor() as cursor:
        cursor.execute("SELECT cardinality(pg_blocking_pids(%s)) > 0", [pid])
        (blocked,) = cursor.fetchone()
    return bool(blocked)


@contextmanager
def actors(*works: Work) -> Iterator[list[Actor]]:
    """A client for each, for a block."""
    made: list[Actor] = []
    try:
        made.extend(Actor(work) for work in works)
        yield made
    finally:
        for actor in made:
            actor.leaves()


def in_turn(*works: Work) -> None:
    """Each as far as its next yield, in turn, until all have ended."""
    with actors(*works) as going:
        left = list(going)
        while left:
            left = [actor for actor in left if actor.goes_on()]


def alone(work: Work) -> None:
    """One client, to its end."""
    in_turn(work)
