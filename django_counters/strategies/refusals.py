"""The refusal of a change that would cross a bound."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from datetime import datetime
from zoneinfo import ZoneInfo

from django_counters.calendar import PERIODS, period_of
from django_counters.errors import (
    CeilingExceeded,
    CounterError,
    InsufficientCount,
    QuotaExceeded,
    Shortfall,
)
from django_counters.stores.base import QuotasStore
from django_counters.types import Delta, Quota


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


def refuse_beyond_quotas(deltas: Iterable[Delta], store: QuotasStore, *, counted: bool) -> None:
    """Refuse increases for which a period has not enough room. The caller holds their totals.

    ``counted``: whether the store has made them already.

    Raises:
        QuotaExceeded: for the first counter without enough room.
    """
    asked = [(delta, quota) for delta in deltas if delta.by > 0 for quota in delta.quotas]
    if not asked:
        return
    sums = store.used([(delta.key, quota.cell) for delta, quota in asked])
    ahead = [0 if counted else delta.by for delta, _ in asked]
    refused = quota_refusal(asked, [a + b for a, b in zip(sums, ahead, strict=True)], store.label)
    if refused is not None:
        raise refused


def quota_refusal(
    asked: Sequence[tuple[Delta, Quota]], sums: Sequence[int], label: Callable[[Hashable], str]
) -> QuotaExceeded | None:
    """The error for increases beyond their quotas; None if there is room for all of them.

    ``sums``: the sum of the period of each quota with the increase.
    """
    beyond: dict[Hashable, tuple[Delta, Quota, int]] = {}
    for (delta, quota), total in zip(asked, sums, strict=True):
        # Longer periods come last: of several the one stays that lets the counter go on last.
        if total > quota.most:
            beyond[delta.key] = delta, quota, max(0, quota.most - total + delta.by)
    if not beyond:
        return None
    refused = list(beyond.values())
    full = tuple(
        Shortfall(label(delta.key), delta.by, left, quota.most) for delta, quota, left in refused
    )
    key, requested, available, ceiling = full[0]
    quota = refused[0][1]
    return QuotaExceeded(
        key=key,
        requested=requested,
        available=available,
        ceiling=ceiling,
        period=period_name(quota),
        resets_at=end_of(quota),
        shortfalls=full,
    )


def period_name(quota: Quota) -> str:
    """The word for the period of a quota."""
    return PERIODS[quota.cell.period - 1]


def end_of(quota: Quota) -> datetime:
    """When the period of a quota ends, in UTC."""
    return period_of(period_name(quota), quota.cell.start, ZoneInfo(quota.zone))[1]
