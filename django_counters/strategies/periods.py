"""The part of a decrease that its periods take: none loses more than it has counted."""

from __future__ import annotations

from collections.abc import Sequence

from django_counters.measure import SUM
from django_counters.stores.base import QuotasStore
from django_counters.types import Delta, Effect


def booked(by: int, used: int) -> int:
    """The part of a change that a period takes which has counted ``used``."""
    return max(by, -max(0, used))


def in_period(deltas: Sequence[Delta], store: QuotasStore) -> list[Delta]:
    """Changes that were made to totals, with what they do to their periods.

    The part that a period does not have was counted before it, and earlier periods stay as they
    are. The caller holds the totals.
    """
    asked = [
        (delta.key, cell)
        for delta in deltas
        for cell, by in delta.effects
        if by < 0 and cell.kind is SUM
    ]
    if not asked:
        return list(deltas)
    sums = store.used(asked)
    used = {(key, cell.period): n for (key, cell), n in zip(asked, sums, strict=True)}

    def taken(delta: Delta, effect: Effect) -> Effect:
        # Rows of other kinds count changes and actors, not amounts.
        if effect.by > 0 or effect.cell.kind.each:
            return effect
        return effect._replace(by=booked(effect.by, used[delta.key, effect.cell.period]))

    return [
        delta._replace(effects=tuple(one for e in delta.effects if (one := taken(delta, e)).by))
        for delta in deltas
    ]
