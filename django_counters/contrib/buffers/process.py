"""All buffers of this process, the threads that flush them, and the end of the process."""

from __future__ import annotations

import _thread
import atexit
import itertools
import logging
import multiprocessing
import multiprocessing.util
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from random import SystemRandom
from types import FrameType
from typing import Any, NamedTuple, Protocol

# The threads must import nothing: a child that is forked meanwhile would wait for it for ever.
import encodings.idna  # noqa: F401  # isort: skip
from django.db import connections

from django_counters.contrib.buffers import files
from django_counters.contrib.buffers.adopting import adopt
from django_counters.contrib.buffers.buffer import Backlog, Buffer, lands_here
from django_counters.contrib.buffers.options import Buffering, outlets
from django_counters.contrib.buffers.pages import InDatabase
from django_counters.contrib.buffers.threads import Worker, begin_thread, call_in_workers
from django_counters.strategies.declaring import Recipe
from django_counters.write.changes import Ref
from django_counters.write.pages import Lander

logger = logging.getLogger("django_counters")
# Seconds: how often a process looks for files of ended processes.
ADOPTING = 30.0
# The numbers of `random` belong to the code that seeds it: this thread takes none of them.
_dice = SystemRandom()
# Seconds: how long a fork or a signal waits for a flush.
PATIENCE = 5.0
# Seconds: how long the default of SIGTERM waits. Orchestrators wait for 30, and then kill.
ENDING = 20.0


# Landing


class Adopter:
    """Adopts files of ended processes regularly, in a thread of its own.

    Attributes:
        lock: held while it flushes. No child is forked then.
    """

    def __init__(self) -> None:
        # Files of which the log has told.
        self._strange: frozenset[str] = frozenset()
        self.worker = Worker("django_counters-adopting", lambda: self._at, self._adopt)
        self.begin()

    def begin(self) -> None:
        """Begin without a thread, in a child."""
        self.lock = threading.RLock()
        self._at = 0.0
        self.worker.begin()

    def _adopt(self) -> None:
        # Not all processes of a machine at once.
        self._at = time.monotonic() + ADOPTING * _dice.uniform(0.5, 1.5)
        try:
            with self.lock:
                report = adopt()
        except Exception:
            # Any error: the next attempt may do better.
            logger.exception("Counters: files of buffers cannot be adopted.")
            return
        finally:
            # Nothing is left to do for a long time.
            connections.close_all()
        for path, problem in report.strange.items():
            if path not in self._strange:
                logger.error("Counters: %s is left alone: %s", path, problem)
        self._strange = frozenset(report.strange)
        for path, problem in report.failed.items():
            logger.warning("Counters: %s cannot be landed yet: %s", path, problem)


class ReentrantLock(Protocol):
    """A lock that a thread can acquire again."""

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """Acquire it; return whether that was possible in time."""

    def release(self) -> None:
        """Release it."""


class BufferKey(NamedTuple):
    """The counters of one buffer."""

    recipe: Recipe
    buffering: Buffering
    using: str
    measured: bool

    @property
    def destination(self) -> str:
        """Return where they are flushed to. An unavailable destination doesn't delay others."""
        to = self.buffering.to
        return f"outlet {to}" if to else f"database {self.using}"


class Buffers:
    """The buffers of a process, and their threads, which start on first use.

    Each destination has a thread, and the files of ended processes have one.
    """

    def __init__(self) -> None:
        self._all: dict[BufferKey, Buffer] = {}
        self._workers: dict[str, Worker] = {}
        self._adopter = Adopter()
        # What each thread that forks has taken.
        self._held: dict[int, list[ReentrantLock]] = {}
        self._begin()

    def _begin(self) -> None:
        # Whether this process ends. What begins after that takes nothing.
        self.closed = False

    @property
    def are_there(self) -> bool:
        """Return whether this process has a buffer."""
        return bool(self._all)

    def of(self, ref: Ref, buffering: Buffering) -> Buffer:
        """Return the buffer of a counter, by the declaration of its namespace."""
        of = BufferKey(ref.recipe, buffering, ref.using, ref.measure is not None)
        found = self._all.get(of)
        return found or self._made(of)

    def _made(self, of: BufferKey) -> Buffer:
        to = of.buffering.to
        lander: Lander = (outlets()[to] if to else InDatabase)(of.recipe, of.using)
        kept = files.files_of(of.recipe, of.buffering, of.using)
        wake = partial(self._wake, of)
        made = Buffer(of.buffering, lander, wake, measured=of.measured, files=kept)
        # An app may keep the namespace: settings don't show it when this app is ready.
        land_before_the_end()
        found = self._all.setdefault(of, made)
        # A process that closes them says so first, so one that it has not found learns it here.
        found.closed = found.closed or self.closed
        return found

    def _wake(self, of: BufferKey) -> bool:
        """Wake the thread that flushes a buffer; return False if it can't be started."""
        to = of.destination
        worker = self._workers.get(to)
        if worker is None:
            work = partial(self._land_due, to)
            made = Worker(f"django_counters-{to}", partial(self._due, to), work)
            worker = self._workers.setdefault(to, made)
        if of.buffering.directory:
            self._adopter.worker.start()
        return worker.wake()

    def those_of(self, using: str | None = None) -> list[tuple[BufferKey, Buffer]]:
        """Return all buffers with their keys, or those of one database."""
        return [(of, one) for of, one in list(self._all.items()) if using in (None, of.using)]

    def flush(self, using: str | None = None) -> int:
        """Flush everything; return the number of entries."""
        return sum(buffer.flush() for _, buffer in self.those_of(using))

    def waiting(self, using: str) -> list[tuple[BufferKey, Backlog]]:
        """Return what is pending for one database."""
        return [(of, buffer.waiting()) for of, buffer in self.those_of(using)]

    def clear(self) -> None:
        """Drop everything pending: for tests."""
        self.closed = False
        for _, buffer in self.those_of():
            with buffer.landing:
                if buffer.files is not None:
                    buffer.files.clear()
                buffer.begin()

    def close(self) -> None:
        """Refuse increments from now on, and flush. What can't be flushed stays pending."""
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
        """Return when the next flush to a destination is due."""
        moments = (one.due() for one in self._landing_in(destination))
        return min((moment for moment in moments if moment is not None), default=None)

    def _land_due(self, destination: str) -> None:
        """Flush the buffers of a destination that are due."""
        for buffer in self._landing_in(destination):
            buffer.land_due()
        for connection in connections.all(initialized_only=True):
            connection.close_if_unusable_or_obsolete()

    def before_fork(self) -> None:
        """Wait until no thread flushes: a child would copy the locks of a flush."""
        until = time.monotonic() + PATIENCE
        landing: list[ReentrantLock] = [buffer.landing for _, buffer in self.those_of()]
        held = self._held[threading.get_ident()] = []
        # Opening a directory waits for no lock, so that one is the last.
        for lock in (self._adopter.lock, *landing, files.opening):
            if not lock.acquire(timeout=max(0.0, until - time.monotonic())):
                continue
            # At once: a process that is interrupted before the next one lets go of this one.
            held.append(lock)

    def after_fork(self) -> None:
        """Release the locks of `before_fork`, in the parent."""
        for lock in self._held.pop(threading.get_ident(), ()):
            lock.release()

    def begin_in_child(self) -> None:
        """Begin empty, in a child: its parent flushes its own increments."""
        self._held = {}
        files.begin_in_child()
        self._begin()
        self._adopter.begin()
        for worker in list(self._workers.values()):
            worker.begin()
        for buffer in list(self._all.values()):
            buffer.begin()


@contextmanager
def own_connections() -> Iterator[None]:
    """Give this thread other connections to all databases, for a block.

    At the end of a process, the present ones may be in a transaction, or be the parent's.
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


# The end of the process

_registrations = itertools.count()


def land_before_the_end() -> None:
    """Register the flush at the end of this process and of its children, on the first call.

    It also happens at SIGTERM. The present handler is called after the flush, seconds later at
    most. Without a handler, the process then ends by that signal. Increments in the meantime are
    counted without a buffer. Outside of the main thread, SIGTERM is left as it is.
    """
    # One step, so that of two threads one registers it. Children inherit it.
    if next(_registrations):
        return
    atexit.register(end)
    # A child of multiprocessing ends without what is registered there.
    multiprocessing.util.register_after_fork(buffers, _end_as_child)
    if multiprocessing.parent_process() is not None:
        # This is one, which was made without a fork, or by a forkserver, and begins here.
        _end_as_child(buffers)
    if threading.current_thread() is not threading.main_thread():
        return
    present = signal.getsignal(signal.SIGTERM)
    if present is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _terminated)
    elif callable(present):
        # A server may let the default end the process afterwards, so nothing comes later.
        signal.signal(signal.SIGTERM, partial(_asked_to_end, present))


def end() -> None:
    """Refuse increments from now on, and flush. What can't be flushed is lost, and logged.

    Increments in a file stay there for another process.
    """
    with own_connections():
        buffers.close()
        _tell_of_the_rest()


def _tell_of_the_rest() -> None:
    for of, buffer in buffers.those_of():
        if buffer.is_kept:
            if amounts := buffer.amounts():
                text = "Counters: left in files at the end of a process: %s %s"
                logger.warning(text, of.using, amounts)
            continue
        for word, sent in (("lost", False), ("perhaps lost", True)):
            if amounts := buffer.amounts(sent=sent):
                text = "Counter incident: %s at the end of a process: %s %s"
                logger.error(text, word, of.using, amounts)


def _end_as_child(_: object) -> None:
    multiprocessing.util.Finalize(None, end, exitpriority=0)


def _terminated(number: int, _: FrameType | None) -> None:
    signal.signal(number, signal.SIG_DFL)
    if not _begin(_land_and_end, number) and _end_here():
        os.kill(os.getpid(), number)


def _asked_to_end(present: Callable[..., Any], number: int, frame: FrameType | None) -> None:
    landed = _thread.allocate_lock()
    landed.acquire()
    if not _begin(_land_and_say, landed):
        _end_here()
    elif not lands_here():
        landed.acquire(timeout=PATIENCE)
    present(number, frame)


def _end_here() -> bool:
    """Call `end` in the thread that handles a signal; return False if it was called before."""
    if buffers.closed or lands_here():
        return False
    end()
    return True


def _land_and_say(landed: _thread.LockType) -> None:
    try:
        buffers.close()
    finally:
        landed.release()


def _begin(work: Callable[..., object], *arguments: object) -> bool:
    """Start work in a thread: the thread of a signal may hold a lock that the work needs."""
    try:
        begin_thread(work, *arguments)
    except RuntimeError:
        logger.debug("Counters: no thread can be started to land what is pending.")
        return False
    return True


def _land_and_end(number: int) -> None:
    """Flush, and end by a signal, even if the flush takes too long."""
    landed = _thread.allocate_lock()
    landed.acquire()
    try:
        if _begin(_land_and_say, landed):
            landed.acquire(timeout=ENDING)
        _tell_of_the_rest()
    finally:
        os.kill(os.getpid(), number)
