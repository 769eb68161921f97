"""Stops calls to a server for a moment after several failures in a row. No I/O."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Literal

State = Literal["closed", "half-open", "open"]
# From the best to the worst.
STATES: tuple[State, ...] = ("closed", "half-open", "open")
FAILURES = 3
PAUSE = 1.0


class Breaker:
    """Admits calls, or refuses them at once.

    It is closed until some calls in a row fail. Then it opens. After a pause it admits one call at
    a time as a probe, and closes when one succeeds. Each admitted call gets a ticket, and reports
    its outcome with it. Reports of calls from before the last change of state are ignored.

    It serves threads and tasks: it holds the lock for a few instructions, never during I/O.

    Args:
        failures: how many in a row open it.
        pause: seconds until the next probe.
        clock: tells seconds, never going back.
    """

    __slots__ = (
        *("_clock", "_count", "_failures", "_lock"),
        *("_pause", "_probing", "_ticket", "_until"),
    )

    def __init__(
        self,
        failures: int = FAILURES,
        pause: float = PAUSE,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._failures = failures
        self._pause = pause
        self._clock = clock
        self._lock = threading.Lock()
        self._count = 0
        self._ticket = 0
        self._probing = False
        self._until: float | None = None

    @property
    def state(self) -> State:
        """The state; half-open when the next call is a probe."""
        until = self._until
        if until is None:
            return "closed"
        return "open" if self._clock() < until else "half-open"

    def admit(self) -> int | None:
        """A ticket for one call, which has to be returned; None if the call is refused."""
        ticket = self._ticket
        # Read without the lock, and after the ticket: nearly every call takes this path.
        if self._until is None:
            return ticket
        with self._lock:
            return self._probe()

    def _probe(self) -> int | None:
        # It may have been closed meanwhile.
        if self._until is not None:
            if self._probing or self._clock() < self._until:
                return None
            self._probing = True
            self._ticket += 1
        return self._ticket

    def succeeded(self, ticket: int) -> bool:
        """The call was answered. Return whether this has closed it."""
        if not self._count:
            return False
        with self._lock:
            if ticket != self._ticket:
                return False
            was_open = self._until is not None
            self._close()
            return was_open

    def failed(self, ticket: int) -> bool:
        """The call was not answered. Return whether this has opened it, and not kept it open."""
        with self._lock:
            if ticket != self._ticket:
                return False
            self._count += 1
            was_open = self._until is not None
            if self._count >= self._failures:
                self._open(self._clock() + self._pause)
            return not was_open and self._until is not None

    def abandoned(self, ticket: int) -> None:
        """The caller cancelled the call, which says nothing about the server."""
        with self._lock:
            if self._probing and ticket == self._ticket:
                self._open(self._clock())

    def _open(self, until: float) -> None:
        self._until = until
        self._probing = False
        self._ticket += 1

    def _close(self) -> None:
        if self._until is not None:
            self._ticket += 1
        self._count = 0
        self._probing = False
        self._until = None
