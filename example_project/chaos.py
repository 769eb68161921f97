"""Accidents on purpose: Redis, the worker and the flusher are killed in turn, and come back."""

from __future__ import annotations

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


class NothingToKill(Exception):
    """The Redis is not one that may be killed."""


class Victim(NamedTuple):
    """Something that is killed by SIGKILL and started again."""

    name: str
    kill: Callable[[], None]
    start: Callable[[], None]


class Chaos:
    """One accident after the other. It has no thread: somebody has to call `step` all the time."""

    def __init__(self, crew: Crew) -> None:
        self.kills: Counter[str] = Counter()
        self._victims = cycle(_victims(crew))
        self._down: Victim | None = None
        self._next = time.monotonic() + FIRST_AFTER

    def step(self) -> None:
        """Kill, or start again, if it is time."""
        if time.monotonic() < self._next:
            return
        if self._down:
            self.mend()
            self._next += EVERY - AWAY
            return
        self._down = next(self._victims)
        self._down.kill()
        self.kills[self._down.name] += 1
        self._next = time.monotonic() + AWAY

    def mend(self) -> None:
        """Start again what is down."""
        if self._down:
            self._down.start()
            self._down = None


def _victims(crew: Crew) -> Iterator[Victim]:
    server = own_redis()
    yield Victim(REDIS, server.kill, server.start)
    for name in (FLUSHER, WORKER):
        yield Victim(name, lambda one=name: crew.kill(one), lambda one=name: crew.start(one))  # type: ignore[misc]


def own_redis() -> valkey.Server:
    """The Redis of this run.

    Raises:
        NothingToKill: it is somebody else's.
    """
    server = valkey.ours()
    if server is None:
        raise NothingToKill("--chaos kills Redis, so it needs one of its own: unset REDIS_URL")
    return server


@contextmanager
def accidents(crew: Crew) -> Iterator[Chaos]:
    """Accidents while the block lasts; everything runs again at its end."""
    chaos = Chaos(crew)
    try:
        yield chaos
    finally:
        chaos.mend()
