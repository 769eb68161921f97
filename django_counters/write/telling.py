"""Applies batches by their strategies, and sends the signal of changes."""

from __future__ import annotations

from django_counters.signals import batch_applied
from django_counters.strategies.base import Outside, Strategy
from django_counters.types import Batch
from django_counters.values import NewValues, result_of


def applied(strategy: Strategy, batch: Batch, using: str, subject: str = "") -> NewValues:
    """Apply a batch, tell who listens, and return the new values."""
    values = strategy.apply(batch)
    if batch_applied.receivers:
        tell(strategy, batch, values, using, subject)
    return values


async def aapplied(strategy: Outside, batch: Batch, using: str) -> NewValues:
    """`applied` for async code."""
    values = await strategy.aapply(batch)
    if batch_applied.receivers:
        tell(strategy, batch, values, using)
    return values


def tell(
    strategy: Strategy, batch: Batch, values: NewValues, using: str, subject: str = ""
) -> None:
    """Send `batch_applied`, unless the batch was counted before. What receivers raise is logged."""
    if batch.token is not None and all(result_of(value).replayed for value in values.values()):
        return
    batch_applied.tell(
        Batch, batch=batch, values=values, strategy=strategy.name, subject=subject, using=using
    )
