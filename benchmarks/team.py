"""Threads or processes that count at the same time, each on a connection of its own."""

from __future__ import annotations

import multiprocessing
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

from django.db import connection

from benchmarks.harness import Action, Sample, Side

STARTS_WITHIN = 120.0
ANSWERS_WITHIN = 60.0
_here = threading.local()


class Done(NamedTuple):
    """How many calls one of them made, and between which moments of the clock they all share."""

    calls: int
    started: float
    ended: float


class Team:
    """All of them, as those who give them orders see them."""

    def __init__(self, pool: Executor, count: int) -> None:
        self._pool = pool
        self._count = count

    def side(self, action: Action, seconds: float) -> Side:
        """A side in which all call ``action``, from the first call of the first one to the last.

        Processes need a function of a module, or a `partial` of one.
        """

        def run() -> Sample:
            done = self.each(partial(follow, action, seconds))
            wall = max(one.ended for one in done) - min(one.started for one in done)
            return Sample(sum(one.calls for one in done), wall)

        return run

    def each(self, work: Callable[[], Any]) -> list[Any]:
        """Let each do the work once, all from the same moment."""
        futures = [self._pool.submit(_with_the_others, work) for _ in range(self._count)]
        return [future.result(STARTS_WITHIN + ANSWERS_WITHIN) for future in futures]


def follow(action: Action, seconds: float) -> Done:
    """Call ``action`` again and again for so many seconds."""
    calls = 0
    started = now = time.monotonic()
    while now < started + seconds:
        action()
        calls += 1
        now = time.monotonic()
    return Done(calls, started, now)


def _with_the_others(work: Callable[[], Any]) -> Any:
    _here.start.wait(STARTS_WITHIN)  # keeps who is quick from taking two
    return work()


def _join(start: Any, database: Mapping[str, Any] | None = None) -> None:
    """Be one of them; ``start`` is a barrier, and processes are told of the database."""
    if database is not None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the one who gives orders ends us
        connection.settings_dict.update(database)
    _here.start = start
    connection.ensure_connection()


@contextmanager
def threads(count: int) -> Iterator[Team]:
    """Start so many threads, and end them."""
    with ThreadPoolExecutor(count, initializer=_join, initargs=(threading.Barrier(count),)) as pool:
        team = Team(pool, count)
        try:
            yield team
        finally:
            team.each(lambda: connection.close())  # noqa: PLW0108 each thread has one of its own


@contextmanager
def processes(count: int) -> Iterator[Team]:
    """Start so many processes, and end them.

    One process loads what all need, and forks them: loading it in each takes longer than what is
    measured with them.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["benchmarks.preloaded"])
    initial = (context.Barrier(count), dict(connection.settings_dict))
    with ProcessPoolExecutor(count, context, _join, initial) as pool:
        team = Team(pool, count)
        team.each(time.monotonic)  # all are connected
        yield team
