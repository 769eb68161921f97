"""Adjustments: what it costs to say who corrected what, and why."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import count

from benchmarks.harness import (
    Pair,
    Work,
    expect,
    loops,
)
from django_counters.models import Counter

SLICE = 50  # calls of one slice
MANY = 100  # counters of one case


def _adjust(key: str) -> None:
    Counter.objects.adjust(key, by=1, reason="a benchmark", actor="benchmarks")


@contextmanager
def _many() -> Iterator[Pair]:
    """Cases of many counters; the reference adjusts as many one by one."""
    cases = count()
    keys = [f"views:many{number}" for number in range(MANY)]

    def whole() -> None:
        Counter.objects.adjust_many(
            by=dict.fromkeys(keys, 1),
            reason="a benchmark",
            actor="benchmarks",
            case=f"case {next(cases)}",
        )

    def singly() -> None:
        for key in keys:
            _adjust(key)

    def verify(subject: int, reference: int) -> None:
        for key in keys:
            expect(key, Counter.objects.value(key), subject + reference)

    yield loops(whole, singly, verify, 1)


CASES: Mapping[str, Work] = {
    "adjust-many": Work(_many, slices=4),  # each is hundreds of adjustments
}
