"""What writers attempted, what was acknowledged to them, and what readers must see meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.concurrency.crowd import FORKS


@dataclass
class Observed:
    """What a reader saw: a value, what was acknowledged before, and attempted after."""

    acknowledged: int
    value: int
    attempted: int


@dataclass
class Book:
    """What each writer has attempted, and what was acknowledged to it: memory that all share.

    Each writes to its own place only, and so needs no lock.
    """

    writers: int
    attempted: Any
    acknowledged: Any
    ended: Any

    @classmethod
    def of(cls, writers: int) -> Book:
        """An empty one."""
        return cls(writers, *(FORKS.RawArray("q", writers) for _ in range(3)))

    def write(self, writer: int, by: int, change: Callable[[], Any]) -> None:
        """Make a change that is acknowledged when it returns."""
        self.attempted[writer] += by
        change()
        self.acknowledged[writer] += by

    def sums(self) -> tuple[int, int]:
        """What was acknowledged, and what was attempted."""
        return sum(self.acknowledged), sum(self.attempted)

    def observe(self, read: Callable[[], int]) -> list[Observed]:
        """Read until all writers have ended; what is wrong, and then the last of all.

        What is acknowledged before a read is in it, what is in it was attempted, and none is less
        than the one before.
        """
        wrong: list[Observed] = []
        last = Observed(0, 0, 0)
        while not all(self.ended):
            acknowledged, _ = self.sums()
            seen = Observed(acknowledged, read(), self.sums()[1])
            in_bounds = seen.acknowledged <= seen.value <= seen.attempted
            if not in_bounds or seen.value < last.value:
                wrong.append(seen)
            last = seen
        return [*wrong[:10], last]
