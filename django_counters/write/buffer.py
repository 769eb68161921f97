"""What asynchronous code collects: there are no savepoints, but there may be several threads."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping

from django_counters.exceptions import OutcomeUnknown


class Buffer:
    """The increments of one block; a block within has a buffer of its own until it succeeds."""

    def __init__(self, outer: Buffer | None) -> None:
        self.closed = False
        self._outer = outer
        self._lock = threading.Lock()
        self._sums: dict[str, int] = {}

    def close(self) -> None:
        """Collect no more."""
        self.closed = True

    def add(self, key: str, by: int) -> None:
        """Keep an increment."""
        with self._lock:
            self._sums[key] = self._sums.get(key, 0) + by

    def absorb(self, sums: Mapping[str, int]) -> None:
        """Keep what a block within has collected."""
        for key, by in sums.items():
            self.add(key, by)

    def owed(self, key: str) -> int:
        """How much of one counter is collected and not yet applied."""
        outer = self._around()
        return self._sums.get(key, 0) + (outer.owed(key) if outer else 0)

    def settle(self, keys: Iterable[str], apply: Callable[[Mapping[str, int]], object]) -> None:
        """Apply what is owed to some counters now; it is committed at once."""
        taken = {key: parts for key in keys if (parts := self._taken(key))}
        try:
            apply({key: by for key, parts in taken.items() if (by := sum(n for _, n in parts))})
        except OutcomeUnknown:
            raise
        except BaseException:
            # Not counted, so it is still owed, and to whom it was.
            for key, parts in taken.items():
                for buffer, by in parts:
                    buffer.add(key, by)
            raise

    def sums(self) -> dict[str, int]:
        """All that is collected, by key."""
        with self._lock:
            return {key: by for key, by in self._sums.items() if by}

    def _taken(self, key: str) -> list[tuple[Buffer, int]]:
        with self._lock:
            own = self._sums.pop(key, 0)
        outer = self._around()
        parts = outer._taken(key) if outer else []
        return [(self, own), *parts] if own else parts

    def _around(self) -> Buffer | None:
        """The block around this one; a task may outlive the block in which it began."""
        return None if self._outer is None or self._outer.closed else self._outer
