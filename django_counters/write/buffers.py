"""All buffers of this process, and the thread that lands them."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from queue import Empty, SimpleQueue
from typing import NamedTuple

# The thread must import nothing: a child that is forked meanwhile would wait for it for ever.
import encodings.idna  # noqa: F401  # isort: skip
from django.db import Error, connections

from django_counters.buffering import Buffering
from django_counters.exceptions import CounterError
from django_counters.stores.sql.partitions import Busy
from django_counters.strategies.declaring import Recipe
from django_counters.write.buffer import Buffer, Waiting
from django_counters.write.change import Ref
from django_counters.write.landing import lander_of

logger = logging.getLogger("django_counters")
# Seconds: how long a fork or a signal waits for a landing, and an idle thread for anything.
PATIENCE = 5.0
IDLE = 60.0
# What a landing may end with. Nothing is lost by it.
FAILED = (CounterError, Busy, Error, RuntimeError)


class Of(NamedTuple):
    """Whose increments are in one buffer."""

    recipe: Recipe
    buffering: Buffering
    using: str
    measured: bool


class Buffers:
    """One for each process. Its thread starts in the process that uses it, and is no other's."""

    def __init__(self) -> None:
        self._all: dict[Of, Buffer] = {}
        # What each thread that forks has taken.
        self._held: dict[int, list[Buffer]] = {}
        self._begin()

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        # One that a signal handler may put into while its own thread does.
        self._bell: SimpleQueue[None] = SimpleQueue()

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
        lander = lander_of(of.recipe, of.using)
        made = Buffer(of.buffering, lander, self.wake, measured=of.measured)
        with self._lock:
            return self._all.setdefault(of, made)

    def those_of(self, using: str | None = None) -> list[tuple[Of, Buffer]]:
        """All buffers, or those in front of one database."""
        return [(of, one) for of, one in list(self._all.items()) if using in (None, of.using)]

    def flush(self, using: str | None = None) -> int:
        """Land all that waits; how many entries that were."""
        return sum(buffer.flush() for _, buffer in self.those_of(using))

    def waiting(self, using: str) -> list[tuple[Of, Waiting]]:
        """What waits for one database."""
        return [(of, buffer.waiting()) for of, buffer in self.those_of(using)]

    def clear(self) -> None:
        """Forget all that waits: for tests."""
        for _, buffer in self.those_of():
            with buffer.landing:
                buffer.begin()

    def close(self) -> list[tuple[Of, Buffer]]:
        """Take nothing more, land what waits, and return those that could not be."""
        left = []
        for of, buffer in self.those_of():
            buffer.closed = True
            try:
                buffer.flush()
            except FAILED:
                logger.exception("Counters: a buffer could not be landed.")
                left.append((of, buffer))
        return left

    def land_here(self) -> bool:
        """Whether this thread is landing something: nobody else can until it goes on."""
        return any(buffer.lands_here for _, buffer in self.those_of())

    def wake(self) -> None:
        """Let the thread know that something waits; it starts where there is none."""
        if self._thread is None or not self._thread.is_alive():
            with self._lock:
                if self._thread is None or not self._thread.is_alive():
                    self._thread = threading.Thread(
                        target=self._run, daemon=True, name="django_counters-buffers"
                    )
                    self._thread.start()
        self._bell.put(None)

    def _run(self) -> None:
        failing = False
        while True:
            try:
                self._bell.get(timeout=self._due())
            except Empty:
                failing = self._land_due(failing=failing)

    def _due(self) -> float:
        """For how many seconds nothing has to be landed."""
        now = time.monotonic()
        moments = [one.due() for _, one in self.those_of()]
        return max(0.0, min((moment - now for moment in moments if moment), default=IDLE))

    def _land_due(self, *, failing: bool) -> bool:
        """Land what has waited long enough; whether something could not be."""
        failed = False
        for _, buffer in self.those_of():
            moment = buffer.due()
            if moment is None or moment > time.monotonic():
                continue
            try:
                buffer.flush()
            except Exception as error:
                # Whatever it is: without this thread nothing would ever be landed.
                failed = True
                buffer.postpone()
                if not failing:
                    # Once, and not each second of an outage.
                    strange = not isinstance(error, FAILED)
                    text = "Counters: a buffer cannot be landed yet: %s"
                    logger.warning(text, error, exc_info=strange)
        for connection in connections.all(initialized_only=True):
            connection.close_if_unusable_or_obsolete()
        return failed

    def before_fork(self) -> None:
        """Let no child be forked in the middle of a landing, which holds locks that it copies."""
        until = time.monotonic() + PATIENCE
        self._held[threading.get_ident()] = [
            buffer
            for _, buffer in self.those_of()
            if buffer.landing.acquire(timeout=max(0.0, until - time.monotonic()))
        ]

    def after_fork(self) -> None:
        """Go on, in the parent."""
        for buffer in self._held.pop(threading.get_ident(), ()):
            buffer.landing.release()

    def begin_in_child(self) -> None:
        """Begin anew: the parent counts what it has, and its thread is not here."""
        self._held = {}
        self._begin()
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
