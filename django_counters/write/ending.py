"""The amount that waits in buffers is landed before the process ends, unless it is killed."""

from __future__ import annotations

import _thread
import atexit
import logging
import multiprocessing
import multiprocessing.util
import os
import signal
import threading
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import Any

from django_counters.write.buffer import lands_here
from django_counters.write.buffers import PATIENCE, buffers, own_connections
from django_counters.write.thread import begin_thread

logger = logging.getLogger("django_counters")
# Seconds: how long the default of SIGTERM waits. Orchestrators wait for 30, and then kill.
ENDING = 20.0


def land_before_the_end() -> None:
    """Land what waits at the end of this process, and of each of its children. Called once.

    Of SIGTERM, too: the handler that is there is called, within seconds, when all is landed, and
    without one the process ends then as it would. What counts meanwhile counts without a buffer.
    """
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
    """Take nothing more, and land what is left; what cannot be landed is lost, and logged.

    Increments in a file wait there for another process.
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
    """End in the thread that a signal comes in, on connections of its own, if no other can start.

    False if the process is ending already, and lands what is pending.
    """
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
    """Work in a thread: the one that a signal comes in may hold what the work waits for."""
    try:
        begin_thread(work, *arguments)
    except RuntimeError:
        logger.debug("Counters: no thread can be started to land what is pending.")
        return False
    return True


def _land_and_end(number: int) -> None:
    """Land what waits, and end by a signal: also where nothing can be landed in time."""
    landed = _thread.allocate_lock()
    landed.acquire()
    try:
        if _begin(_land_and_say, landed):
            landed.acquire(timeout=ENDING)
        _tell_of_the_rest()
    finally:
        os.kill(os.getpid(), number)
