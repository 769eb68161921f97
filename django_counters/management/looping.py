"""Work that is done again and again until the process is asked to end."""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

ENDING = (signal.SIGINT, signal.SIGTERM)
Wait = Callable[[float], bool]


@contextmanager
def until_asked_to_end() -> Iterator[Wait]:
    """Give a function that waits for so many seconds, and says whether to go on.

    SIGINT and SIGTERM end the wait, and what is being done is finished; a second one ends the
    process the usual way. Works in the main thread only, where signals arrive.
    """
    # A handler may come at any moment, also while a lock is held that it would wait for.
    reading, writing = os.pipe()
    before = {number: signal.getsignal(number) or signal.SIG_DFL for number in ENDING}

    def ask(number: int, _: FrameType | None) -> None:
        signal.signal(number, before[signal.Signals(number)])
        os.write(writing, b".")

    def wait(seconds: float) -> bool:
        asked, _, _ = select.select([reading], [], [], max(seconds, 0))
        return not asked

    for number in ENDING:
        signal.signal(number, ask)
    try:
        yield wait
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        os.close(reading)
        os.close(writing)
