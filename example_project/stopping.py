"""Ctrl-C and SIGTERM: somebody asks a run to stop, and to check what it has done."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

ENDING = (signal.SIGINT, signal.SIGTERM)


class Stop:
    """Set by Ctrl-C and SIGTERM; a second one ends the process the usual way."""

    def __init__(self) -> None:
        # A plain flag: an Event has a lock, which a signal handler must not wait for.
        self.asked = False

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Listen to the signals meanwhile."""
        before = {number: signal.getsignal(number) for number in ENDING}

        def ask(number: int, _: FrameType | None) -> None:
            self.asked = True
            signal.signal(number, before[signal.Signals(number)])

        for number in ENDING:
            signal.signal(number, ask)
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
