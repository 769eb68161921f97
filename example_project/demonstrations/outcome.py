"""What a way of counting came to."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple


class Outcome(NamedTuple):
    """What was done, and what was counted of it; ``remark``: the error that somebody got."""

    expected: int
    counted: int
    remark: str = ""

    @property
    def verdict(self) -> str:
        """In words, by how much it is wrong."""
        wrong = self.counted - self.expected
        if not wrong:
            return "exact"
        return f"{-wrong} lost" if wrong < 0 else f"{wrong} too many"

    def __str__(self) -> str:
        return f"{self.verdict} ({self.remark})" if self.remark else self.verdict


class Demonstration(NamedTuple):
    """One naive way, and the same work, in the same order, with django_counters."""

    naive: Callable[[], Outcome]
    exact: Callable[[], Outcome]
