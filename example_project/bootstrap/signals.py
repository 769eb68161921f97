"""How this process takes the signals that end it."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn


@contextmanager
def orderly_exit() -> Iterator[None]:
    """Turn SIGTERM and SIGHUP into SystemExit(128 + n), so that ``with`` and atexit clean up.

    SIGINT is KeyboardInterrupt already. A signal that the caller handles or ignores (nohup) stays
    as it is, and so does everything outside the main thread.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def leave(number: int, frame: FrameType | None) -> NoReturn:
        # A second signal must not cut the cleaning short.
        signal.signal(number, signal.SIG_IGN)
        raise SystemExit(128 + number)

    taken = [n for n in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(n) is signal.SIG_DFL]
    for number in taken:
        signal.signal(number, leave)
    try:
        yield
    finally:
        for number in taken:
            signal.signal(number, signal.SIG_DFL)


@contextmanager
def undisturbed() -> Iterator[None]:
    """Ignore INT, TERM and HUP while servers are being stopped."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, signal.SIG_IGN) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
