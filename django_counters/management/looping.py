"""Loops until the process is asked to end."""

from __future__ import annotations

import os
import signal
from argparse import ArgumentTypeError
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from selectors import EVENT_READ, DefaultSelector
from types import FrameType

ENDING = (signal.SIGINT, signal.SIGTERM)
Wait = Callable[[float], bool]


@contextmanager
def until_asked_to_end() -> Iterator[Wait]:
    """Yield a function that waits for some seconds, and returns whether to go on.

    SIGINT and SIGTERM end the wait, and the current work is finished. A second signal ends the
    process the usual way. It works only in the main thread, where signals arrive.
    """
    # A pipe, because a handler may run at any moment, even while a lock is held.
    reading, writing = os.pipe()
    # Like the descriptors of a process with many connections, this one may be above 1,023.
    selector = DefaultSelector()
    selector.register(reading, EVENT_READ)
    before = {number: signal.getsignal(number) or signal.SIG_DFL for number in ENDING}

    def ask(number: int, _: FrameType | None) -> None:
        signal.signal(number, before[signal.Signals(number)])
        os.write(writing, b".")

    def wait(seconds: float) -> bool:
        return not selector.select(max(seconds, 0))

    for number in ENDING:
        signal.signal(number, ask)
    try:
        yield wait
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        selector.close()
        os.close(reading)
        os.close(writing)


def seconds(text: str) -> float:
    """Return the interval of a loop, an argument of a command.

    Raises:
        ArgumentTypeError: it isn't one.
    """
    try:
        found = float(text)
    except ValueError:
        found = 0
    if not 0 < found <= 86_400:
        raise ArgumentTypeError(f"{text!r} isn't a number of seconds above 0, up to a day")
    return found
