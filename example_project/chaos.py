"""Accidents on purpose: Redis, the worker and the flusher are killed, and come back.

Somebody presses a button for each, or they are killed in turn.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import cycle
from typing import NamedTuple

from example_project.bootstrap import valkey
from example_project.crew import FLUSHER, WORKER, Crew

# Seconds.
FIRST_AFTER = 3.0
EVERY = 3.0
AWAY = 1.0
REDIS = "Redis"
# What a page may ask for.
ASKED_FOR = (REDIS, WORKER)
NO_RUN = "Nothing that this process has started can be killed: start python3 -m example_project."
STARTING = "starting…"
NOT_OURS = "This Redis is that of REDIS_URL. Only what the example has started itself is killed."


class NothingToKill(Exception):
    """The Redis is not one that may be killed."""


class Victim(NamedTuple):
    """Something that is killed by SIGKILL and started again."""

    name: str
    kill: Callable[[], None]
    start: Callable[[], None]


class Chaos:
    """One accident after the other. It has no thread: somebody has to call `step` all the time.

    Args:
        crew: the processes that may be killed.
        by_itself: kill all in turn, also if nobody asks.
    """

    def __init__(self, crew: Crew, *, by_itself: bool) -> None:
        self.kills: Counter[str] = Counter()
        self._victims = {victim.name: victim for victim in _victims(crew)}
        self._turns = cycle((REDIS, FLUSHER, WORKER) if by_itself else ())
        self._down: Victim | None = None
        self._next = time.monotonic() + FIRST_AFTER if by_itself else 0.0
        self._asked: dict[str, Victim] = {}
        self._lock = threading.Lock()

    def ask(self, name: str) -> str:
        """Have something killed by a later step; return why not, and "" if it will be.

        Any thread may ask. What was asked for and is not yet killed, is killed once.
        """
        reason = self.why_not(name)
        if not reason:
            with self._lock:
                self._asked[name] = self._victims[name]
        return reason

    def why_not(self, name: str) -> str:
        """Why it cannot be killed; "" if it can."""
        return "" if name in self._victims else NOT_OURS

    def step(self) -> None:
        """Kill, or start again, if it is time."""
        if time.monotonic() < self._next:
            return
        if self._down:
            self.mend()
            self._next += EVERY - AWAY
        elif victim := self._chosen():
            self._kill(victim)

    def _chosen(self) -> Victim | None:
        with self._lock:
            if self._asked:
                return self._asked.pop(next(iter(self._asked)))
        name = next(self._turns, None)
        return self._victims[name] if name else None

    def _kill(self, victim: Victim) -> None:
        self._down = victim
        victim.kill()
        self.kills[victim.name] += 1
        self._next = time.monotonic() + AWAY

    def mend(self) -> None:
        """Start again what is down."""
        if self._down:
            self._down.start()
            self._down = None


def _victims(crew: Crew) -> Iterator[Victim]:
    if server := valkey.ours():
        yield Victim(REDIS, server.kill, server.start)
    for name in (FLUSHER, WORKER):
        yield Victim(name, lambda one=name: crew.kill(one), lambda one=name: crew.start(one))  # type: ignore[misc]


def need_own_redis() -> None:
    """Return if the Redis is that of this run.

    Raises:
        NothingToKill: it is somebody else's.
    """
    if valkey.ours() is None:
        raise NothingToKill("--chaos kills Redis, so it needs one of its own: unset REDIS_URL")


_running: list[Chaos] = []
# The last of them says why nothing can be killed while nothing is running.
_reasons = [NO_RUN]


@contextmanager
def starting() -> Iterator[None]:
    """Accidents come later in this block; until then the pages say that they are starting."""
    _reasons.append(STARTING)
    try:
        yield
    finally:
        _reasons.remove(STARTING)


@contextmanager
def accidents(crew: Crew, *, by_itself: bool) -> Iterator[Chaos]:
    """Accidents while the block lasts; everything runs again at its end."""
    chaos = Chaos(crew, by_itself=by_itself)
    _running.append(chaos)
    try:
        yield chaos
    finally:
        _running.remove(chaos)
        chaos.mend()


def ask(name: str) -> str:
    """Have something killed; return why that cannot be, and "" if it will be."""
    return _running[-1].ask(name) if _running else _reasons[-1]


def why_not(name: str) -> str:
    """Why something cannot be killed by the button of a page; "" if it can."""
    return _running[-1].why_not(name) if _running else _reasons[-1]


def killed() -> dict[str, int]:
    """How often what was killed, in this run."""
    return dict(_running[-1].kills) if _running else {}
