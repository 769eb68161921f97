"""Reads how much of a quota is used."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django_counters.registry import registry
from django_counters.strategies.refusals import end_of, period_name
from django_counters.write.change import Change, Ref


@dataclass(frozen=True, slots=True)
class QuotaUsage:
    """How much of a quota is used in the present period.

    Attributes:
        period: ``"minute"``, ``"hour"``, ``"day"``, ``"week"`` or ``"month"``.
        ceiling: how much may be counted in it.
        used: how much was; below zero if more was taken back before the quota was declared.
        available: how much is left; zero where the quota was lowered below what is used.
        resets_at: when the next period begins.
    """

    period: str
    ceiling: int
    used: int
    available: int
    resets_at: datetime


def usage_of(ref: Ref) -> tuple[QuotaUsage, ...]:
    """The quotas of a counter in the present periods, the shortest first, in one statement.

    Others may count meanwhile: to be sure, count and catch `QuotaExceeded`.
    """
    quotas = Change(ref, 1).apart.quotas
    if not quotas:
        return ()
    sums = registry.corrections(ref.table, ref.using).used(
        [(ref.key, quota.cell) for quota in quotas]
    )
    return tuple(
        QuotaUsage(
            period=period_name(quota),
            ceiling=quota.most,
            used=used,
            available=max(0, quota.most - used),
            resets_at=end_of(quota),
        )
        for quota, used in zip(quotas, sums, strict=True)
    )
