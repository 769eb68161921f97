"""What asynchronous code collects: there are no savepoints, but there may be several threads."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable

from django_counters.exceptions import OutcomeUnknown
from django_counters.types import Cell, Sums, merged


class AsyncCollector:
    """The increments of one block; a block within has a buffer of its own until it succeeds."""

    def __init__(self, outer: AsyncCollector | None) -> None:
        self.closed = False
        self._outer = outer
        self._lock = threading.Lock()
        self._sums: dict[tuple[str, Cell | None], int] = {}

    def close(self) -> None:
        """Collect no more."""
        self.closed = True

    def add(self, key: str, parts: Iterable[tuple[Cell | None, int]]) -> None:
        """Keep an increment: that of the total and those of its cells, together."""
        with self._lock:
            for cell, by in parts:
                self._sums[key, cell] = self._sums.get((key, cell), 0) + by

    def absorb(self, sums: Sums[str]) -> None:
        """Keep what a block within has collected."""
        with self._lock:
            for where, by in sums.items():
                self._sums[where] = self._sums.get(where, 0) + by

    def owed(self, key: str) -> int:
        """How much of one counter is collected and not yet applied."""
        outer = self._around()
        return self._sums.get((key, None), 0) + (outer.owed(key) if outer else 0)

    def settle(self, keys: Iterable[str], apply: Callable[[Sums[str]], object]) -> None:
        """Apply what is owed to some counters now; it is committed at once."""
        taken = self._taken(frozenset(keys))
        try:
            apply(merged(sums for _, sums in taken))
        except OutcomeUnknown:
            raise
        except BaseException:
            # Not counted, so it is still owed, and to whom it was.
            for buffer, sums in taken:
                buffer.absorb(sums)
            raise

    def sums(self) -> Sums[str]:
        """All that is collected."""
        with self._lock:
            return merged([self._sums])

    def _taken(self, keys: frozenset[str]) -> list[tuple[AsyncCollector, Sums[str]]]:
        with self._lock:
            own = {where: by for where, by in self._sums.items() if where[0] in keys}
            for where in own:
                del self._sums[where]
        outer = self._around()
        return [(self, own), *(outer._taken(keys) if outer else [])]

    def _around(self) -> AsyncCollector | None:
        """The block around this one; a task may outlive the block in which it began."""
        return None if self._outer is None or self._outer.closed else self._outer
