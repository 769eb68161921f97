"""What waits in buffers is landed before the process ends, unless it is killed."""

from __future__ import annotations

import _thread
import atexit
import logging
import multiprocessing.util
import os
import signal
import threading
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import Any

from django_counters.write.buffers import PATIENCE, buffers, own_connections

logger = logging.getLogger("django_counters")


def land_before_the_end() -> None:
    """Land what waits at the end of this process, and of each of its children. Called once.

    Of SIGTERM, too: the handler that is there is called, within seconds, when all is landed, and
    without one the process ends then as it would. What counts meanwhile counts without a buffer.
    """
    atexit.register(end)
    # A child of multiprocessing ends without what is registered there.
    multiprocessing.util.register_after_fork(buffers, _end_as_child)
    if threading.current_thread() is not threading.main_thread():
        return
    present = signal.getsignal(signal.SIGTERM)
    if present is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _terminated)
    elif callable(present):
        # A server may let the default end the process afterwards, so nothing comes later.
        signal.signal(signal.SIGTERM, partial(_asked_to_end, present))


def end() -> None:
    """Take nothing more, and land what is left; what cannot be landed is lost, and logged."""
    with own_connections():
        for of, buffer in buffers.close():
            what = of.using, buffer.amounts()
            logger.error("Counter incident: lost at the end of a process: %s %s", *what)


def _end_as_child(_: object) -> None:
    multiprocessing.util.Finalize(None, end, exitpriority=0)


def _terminated(number: int, _: FrameType | None) -> None:
    signal.signal(number, signal.SIG_DFL)
    _begin(_land_and_end, number)


def _asked_to_end(present: Callable[..., Any], number: int, frame: FrameType | None) -> None:
    landed = _thread.allocate_lock()
    landed.acquire()
    if _begin(_land_and_say, landed) and not buffers.land_here():
        landed.acquire(timeout=PATIENCE)
    present(number, frame)


def _land_and_say(landed: _thread.LockType) -> None:
    try:
        buffers.close()
    finally:
        landed.release()


def _begin(work: Callable[..., object], *arguments: object) -> bool:
    """Work in a thread: the one that a signal comes in may hold what the work waits for."""
    try:
        # Without the locks of `threading`, which it may hold, too.
        _thread.start_new_thread(work, arguments)
    except RuntimeError:
        logger.debug("Counters: the interpreter ends already, and lands what waits.")
        return False
    return True


def _land_and_end(number: int) -> None:
    try:
        buffers.close()
    finally:
        os.kill(os.getpid(), number)
