"""All buffers of this process, and the threads that land them."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import NamedTuple, Protocol

# The threads must import nothing: a child that is forked meanwhile would wait for it for ever.
import encodings.idna  # noqa: F401  # isort: skip
from django.db import connections

from django_counters.buffering import Buffering
from django_counters.features import outlets
from django_counters.strategies.declaring import Recipe
from django_counters.write import homes
from django_counters.write.adopter import Adopter
from django_counters.write.buffer import Buffer, Waiting
from django_counters.write.change import Ref
from django_counters.write.files import files_of
from django_counters.write.landing import InDatabase, Lander
from django_counters.write.thread import Worker
from django_counters.write.uwsgi import call_in_workers

logger = logging.getLogger("django_counters")
# Seconds: how long a fork or a signal waits for a landing.
PATIENCE = 5.0


class Locked(Protocol):
    """A lock that its thread may take twice."""

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """Take it; whether that was possible in time."""

    def release(self) -> None:
        """Let go of it."""


class Of(NamedTuple):
    """Whose increments are in one buffer."""

    recipe: Recipe
    buffering: Buffering
    using: str
    measured: bool

    @property
    def destination(self) -> str:
        """Where they land. One that doesn't answer only holds up what lands there."""
        to = self.buffering.to
        return f"outlet {to}" if to else f"database {self.using}"


class Buffers:
    """One for each process. Its threads start in the process that uses it, and are no other's.

    There is one for each destination, and one that lands what processes have left.
    """

    def __init__(self) -> None:
        self._all: dict[Of, Buffer] = {}
        self._workers: dict[str, Worker] = {}
        self._adopter = Adopter()
        # What each thread that forks has taken.
        self._held: dict[int, list[Locked]] = {}
        self._begin()

    def _begin(self) -> None:
        # Whether this process ends. What begins after that takes nothing.
        self.closed = False

    @property
    def are_there(self) -> bool:
        """Whether anything was ever counted in one."""
        return bool(self._all)

    def of(self, ref: Ref) -> Buffer:
        """The buffer in front of a counter that declares one."""
        assert ref.buffer, "it declares a buffer"
        of = Of(ref.recipe, ref.buffer, ref.using, ref.measure is not None)
        found = self._all.get(of)
        return found or self._made(of)

    def _made(self, of: Of) -> Buffer:
        to = of.buffering.to
        lander: Lander = (outlets()[to] if to else InDatabase)(of.recipe, of.using)
        files = files_of(of.recipe, of.buffering, of.using)
        wake = partial(self._wake, of)
        made = Buffer(of.buffering, lander, wake, measured=of.measured, files=files)
        found = self._all.setdefault(of, made)
        # A process that closes them says so first, so one that it has not found learns it here.
        found.closed = found.closed or self.closed
        return found

    def _wake(self, of: Of) -> bool:
        """Let the thread that lands them know that something waits; False where there is none."""
        to = of.destination
        worker = self._workers.get(to)
        if worker is None:
            work = partial(self._land_due, to)
            made = Worker(f"django_counters-{to}", partial(self._due, to), work)
            worker = self._workers.setdefault(to, made)
        if of.buffering.directory:
            self._adopter.worker.start()
        return worker.wake()

    def those_of(self, using: str | None = None) -> list[tuple[Of, Buffer]]:
        """All buffers, or those in front of one database."""
        return [(of, one) for of, one in list(self._all.items()) if using in (None, of.using)]

    def flush(self, using: str | None = None) -> int:
        """Land all that waits; how many entries that were."""
        return sum(buffer.flush() for _, buffer in self.those_of(using))

    def waiting(self, using: str) -> list[tuple[Of, Waiting]]:
        """The amount that waits for one database."""
        return [(of, buffer.waiting()) for of, buffer in self.those_of(using)]

    def clear(self) -> None:
        """Forget all that waits: for tests."""
        self.closed = False
        for _, buffer in self.those_of():
            with buffer.landing:
                if buffer.files is not None:
                    buffer.files.clear()
                buffer.begin()

    def close(self) -> None:
        """Take nothing more, and land what waits. What cannot be landed is still there."""
        self.closed = True
        present = self.those_of()
        for _, buffer in present:
            buffer.closed = True
        for _, buffer in present:
            try:
                buffer.flush()
            except Exception:
                # Any error: it keeps no other from landing.
                logger.exception("Counters: a buffer could not be landed.")
            else:
                buffer.leave()

    def _landing_in(self, destination: str) -> list[Buffer]:
        return [one for of, one in self.those_of() if of.destination == destination]

    def _due(self, destination: str) -> float | None:
        """When something is to be landed there."""
        moments = (one.due() for one in self._landing_in(destination))
        return min((moment for moment in moments if moment is not None), default=None)

    def _land_due(self, destination: str) -> None:
        """Land what has waited long enough."""
        for buffer in self._landing_in(destination):
            buffer.land_due()
        for connection in connections.all(initialized_only=True):
            connection.close_if_unusable_or_obsolete()

    def before_fork(self) -> None:
        """Let no child be forked in the middle of a landing, which holds locks that it copies."""
        until = time.monotonic() + PATIENCE
        landing: list[Locked] = [buffer.landing for _, buffer in self.those_of()]
        held = self._held[threading.get_ident()] = []
        # Opening a directory waits for no lock, so that one is the last.
        for lock in (self._adopter.lock, *landing, homes.opening):
            if not lock.acquire(timeout=max(0.0, until - time.monotonic())):
                continue
            # At once: a process that is interrupted before the next one lets go of this one.
            held.append(lock)

    def after_fork(self) -> None:
        """Go on, in the parent."""
        for lock in self._held.pop(threading.get_ident(), ()):
            lock.release()

    def begin_in_child(self) -> None:
        """Begin anew: the parent counts what it has, and its thread is not here."""
        self._held = {}
        homes.begin_in_child()
        self._begin()
        self._adopter.begin()
        for worker in list(self._workers.values()):
            worker.begin()
        for buffer in list(self._all.values()):
            buffer.begin()


@contextmanager
def own_connections() -> Iterator[None]:
    """A block in which this thread has connections of its own to all databases.

    At the end of a process: those of its thread may be in a transaction, or be its parent's.
    """
    theirs = {alias: connections[alias] for alias in connections}
    try:
        for alias, connection in theirs.items():
            connections[alias] = connection.copy()
        yield
    finally:
        for alias, connection in theirs.items():
            connections[alias].close()
            connections[alias] = connection


buffers = Buffers()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=buffers.before_fork,
        after_in_parent=buffers.after_fork,
        after_in_child=buffers.begin_in_child,
    )
call_in_workers(buffers.begin_in_child)
