"""Counting in the memory of a process, compared with a dictionary, and with Redis."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from itertools import count

from benchmarks.harness import Pair, Work, adds_up, loops
from benchmarks.inspection import increment, value
from django_counters.contrib import buffers

SLICE = 20_000  # calls of one slice; nothing of them leaves the process
CALLS = 500
_numbers = count()


class _Locked:
    """The least that merges increments of several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.sums: dict[str, int] = {}

    def increment(self, key: str, by: int = 1) -> None:
        with self._lock:
            self.sums[key] = self.sums.get(key, 0) + by


@contextmanager
def handle() -> Iterator[Pair]:
    """A handle, and a lock around a dictionary."""
    key = f"buffered:{next(_numbers)}"
    mine, theirs = buffers.handle(key), _Locked()
    stored = adds_up(value(key), lambda: theirs.sums.get(key, 0))
    yield loops(mine.increment, partial(theirs.increment, key), stored, SLICE)
    buffers.flush()


@contextmanager
def filed() -> Iterator[Pair]:
    """A handle whose buffer has a file, and one whose buffer is in memory."""
    mine, theirs = f"filed:{next(_numbers)}", f"buffered:{next(_numbers)}"
    handles = buffers.handle(mine), buffers.handle(theirs)
    stored = adds_up(value(mine), value(theirs))
    yield loops(handles[0].increment, handles[1].increment, stored, SLICE)
    buffers.flush()


@contextmanager
def buffered() -> Iterator[Pair]:
    """The usual call, with a buffer and without."""
    mine, theirs = f"buffered:{next(_numbers)}", f"views:buffered{next(_numbers)}"
    stored = adds_up(value(mine), value(theirs))
    yield loops(partial(increment, mine), partial(increment, theirs), stored, CALLS)
    buffers.flush()


CASES: Mapping[str, Work] = {
    "buffer-handle": Work(handle),
    "buffer-handle-file": Work(filed),
    "buffer-increment": Work(buffered),
}
