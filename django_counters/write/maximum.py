"""A counter is raised to a number, if its value is smaller: repeated, it changes nothing."""

from __future__ import annotations

from functools import partial
from typing import Any

from django_counters.exceptions import UnsupportedMaximum
from django_counters.registry import registry
from django_counters.signals import batch_applied
from django_counters.strategies.base import Raises
from django_counters.types import Batch, Delta, Peak, Raised, check_integer
from django_counters.values import Counted, Result, Unknown
from django_counters.write.change import Ref, is_spread
from django_counters.write.pipeline import settle
from django_counters.write.telling import tell


def maximum(ref: Ref, number: object) -> Result:
    """Raise a counter to ``number``; see `CounterManager.maximum`."""
    peak = Peak(ref.key, check_integer(number), ref.bounds)
    _refuse(ref)
    if not ref.owner:
        # Its collected increments come first.
        settle([ref.text], ref.using)
    found: Any = registry.strategy(ref.recipe, ref.table, ref.using)
    strategy: Raises = found
    heard = partial(_tell, strategy, ref)
    raised = strategy.maximum(peak, heard)
    if isinstance(raised, Unknown):
        return raised
    heard(raised)
    return Counted(raised.value)


def _refuse(ref: Ref) -> None:
    if not ref.recipe.can.raises:
        reason = f"{ref.strategy} counters cannot promise it"
        raise UnsupportedMaximum(key=ref.label, reason=reason)
    if ref.intake is not None:
        raise UnsupportedMaximum(key=ref.label, reason=ref.intake.reason)
    if is_spread(ref):
        raise UnsupportedMaximum(key=ref.label, reason="other databases count it, too")
    if ref.measure is not None and ref.measure.condition is not None:
        raise UnsupportedMaximum(key=ref.label, reason=ref.measure.condition.reason)
    if ref.measure is not None:
        reason = "it is counted by period, and a period has what was added, not the largest number"
        raise UnsupportedMaximum(key=ref.label, reason=reason)


def _tell(strategy: Raises, ref: Ref, raised: Raised) -> None:
    """Tell who listens what was added, if anything was."""
    if raised.by and batch_applied.receivers:
        batch = Batch((Delta(ref.key, raised.by, ref.bounds),))
        tell(strategy, batch, {ref.key: raised.value}, ref.using, ref.table.label)
