"""What a bound says to a change that would cross it."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

from django_counters.exceptions import (
    CeilingExceeded,
    CounterError,
    InsufficientCount,
    Shortfall,
)
from django_counters.types import Delta


def refusal(refused: Sequence[tuple[Delta, int]], label: Callable[[Hashable], str]) -> CounterError:
    """The error for deltas that their bounds do not admit; a floor speaks before a ceiling.

    Args:
        refused: each with the value that it met.
        label: what people call the counter of a key.
    """
    short = tuple(
        Shortfall(
            label(delta.key), -delta.by, max(0, value - delta.bounds.floor), delta.bounds.floor
        )
        for delta, value in refused
        if delta.by < 0 and delta.bounds.floor is not None
    )
    if short:
        key, requested, available, bound = short[0]
        return InsufficientCount(
            key=key, requested=requested, available=available, floor=bound, shortfalls=short
        )
    full = tuple(
        Shortfall(
            label(delta.key), delta.by, max(0, delta.bounds.ceiling - value), delta.bounds.ceiling
        )
        for delta, value in refused
        if delta.bounds.ceiling is not None
    )
    key, requested, available, bound = full[0]
    return CeilingExceeded(
        key=key, requested=requested, available=available, ceiling=bound, shortfalls=full
    )
