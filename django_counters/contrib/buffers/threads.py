"""Threads that work when something is due, event loops, and what uWSGI does otherwise."""

from __future__ import annotations

import _thread
import asyncio
import logging
import signal
import sys
import threading
import time
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Any

logger = logging.getLogger("django_counters")
# Seconds: how long it sleeps if nothing is due, and after an error.
IDLE = 60.0
PAUSE = 1.0
# Faults of a thread are delivered to that thread; all other signals to the process.
_FAULTS = {"SIGSEGV", "SIGBUS", "SIGFPE", "SIGILL", "SIGTRAP", "SIGSYS", "SIGABRT"}
_ASKED = signal.valid_signals() - {getattr(signal, name) for name in _FAULTS}


def begin_thread(work: Callable[..., object], *arguments: object) -> None:
    """Start a thread that blocks signals, so that the main thread gets them even while it waits.

    The system delivers a signal to any thread that doesn't block it, and wakes no other. Python
    calls handlers only in the main thread.

    It acquires no lock: a finalizer or a signal handler that counts may have interrupted this
    function in the same thread.

    Raises:
        RuntimeError: no thread can be started.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    try:
        # It inherits what is blocked here.
        signal.pthread_sigmask(signal.SIG_BLOCK, _ASKED)
        _thread.start_new_thread(work, arguments)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class Worker:
    """A thread that works when something is due. It starts when it is first woken.

    Args:
        name: its name in lists of threads.
        due: when there is something to do, by the monotonic clock; None if there is nothing.
        work: the work. Its errors go to `threading.excepthook`.
    """

    def __init__(
        self, name: str, due: Callable[[], float | None], work: Callable[[], object]
    ) -> None:
        self._name = name
        self._due = due
        self._work = work
        self._failing = False
        self.begin()

    def begin(self) -> None:
        """Begin without a thread, in a child."""
        # Held by the thread as long as it runs, so that there is one.
        self._running = threading.Lock()
        # One that a signal handler may put into while its own thread does.
        self._bell: SimpleQueue[None] = SimpleQueue()

    def wake(self) -> bool:
        """Let it look what is due, and start it; return False if it can't be started."""
        self._bell.put(None)
        return self.start()

    def start(self) -> bool:
        """Start it, unless it runs; return False if that fails."""
        if self._running.locked():
            return True
        try:
            # A second one ends at once.
            begin_thread(self._run)
        except RuntimeError as error:
            if not self._failing:
                text = "Counters: no thread lands a buffer, so all counts at once until one can: %s"
                logger.warning(text, error)
            self._failing = True
            return False
        self._failing = False
        return True

    def _run(self) -> None:
        if not self._running.acquire(blocking=False):
            return
        try:
            threading.current_thread().name = self._name
            while True:
                try:
                    self._turn()
                except BaseException:
                    # Also of a receiver that calls `sys.exit`: something may be pending, and no
                    # other thread would land it.
                    threading.excepthook(threading.ExceptHookArgs([*sys.exc_info(), None]))
                    time.sleep(PAUSE)
        finally:
            # After any end, the next increment starts another one.
            self._running.release()

    def _turn(self) -> None:
        moment = self._due()
        seconds = IDLE if moment is None else max(0.0, moment - time.monotonic())
        try:
            self._bell.get(timeout=seconds)
        except Empty:
            self._work()


def in_event_loop() -> bool:
    """Return whether this code runs in an event loop, whose other tasks would wait with it."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


# uWSGI forks without telling Python, and may run no threads.


def lets_wait() -> bool:
    """Return whether increments may wait in this process.

    They may not without threads. Nor may they in the process that uWSGI forks workers from: each
    worker would have a copy, and that process ends without calling functions of `atexit`.
    """
    # There within uWSGI alone, and not to be had by others.
    server: Any = sys.modules.get("uwsgi")
    if server is None:
        return True
    if not {"enable-threads", "threads"} & set(map(_text, server.opt)):
        logger.warning("Counters: no buffer in uWSGI without --enable-threads: all counts at once.")
        return False
    return bool(server.worker_id())


def call_in_workers(call: Callable[[], object]) -> None:
    """Call a function in each worker when it begins.

    If other code replaces the hook, workers count without buffers: see `lets_wait`.
    """
    server: Any = sys.modules.get("uwsgi")
    if server is None:
        return
    before = getattr(server, "post_fork_hook", None)

    def begin() -> None:
        call()
        if before is not None:
            before()

    server.post_fork_hook = begin


def _text(name: str | bytes) -> str:
    return name if isinstance(name, str) else name.decode()
