"""Forgets named counters, whatever waits for them elsewhere."""

from __future__ import annotations

from django_counters.adjustments.adjustment import settle_buffered
from django_counters.adjustments.correcting import meet, refresh_after_commit
from django_counters.exceptions import CounterOverflow
from django_counters.registry import registry
from django_counters.tables.standing import COUNTERS
from django_counters.types import INT8, UNBOUNDED, Batch
from django_counters.write.change import Change, named


def forget(key: object, using: str | None) -> int:
    """Let a counter be zero, in one transaction; what it was.

    What waits elsewhere, or is an entry of the ledger, stays there, and is taken away from the
    total: together they come to nothing, before and after it is folded.
    """
    ref = named(key, using)
    alias = ref.using
    settle_buffered([ref], alias)
    corrections = registry.corrections(ref.table, alias, None)
    with corrections.correcting():
        met = meet([ref], alias)
        value = met.values[ref.key]
        low, high = INT8
        if not low <= -value <= high:
            raise CounterOverflow(key=ref.label, low=low, high=high)
        delta = Change(ref, -value).delta
        if value and ref.recipe.can.entries:
            # Its own entries are its history, and this is one of them.
            ledger = registry.strategy(ref.recipe, ref.table, alias)
            ledger.apply(Batch((delta._replace(bounds=UNBOUNDED),)))
        elif value:
            corrections.check(ref.key, -value, met.total(ref))
            corrections.correct({ref.key: -value})
            corrections.add_cells([delta])
        # What is to be folded later needs the row, and so do entries.
        rows = COUNTERS.rows(alias).filter(key=ref.text)
        rows.filter(value=0, outside__isnull=True).delete()
        refresh_after_commit([ref], alias)
    return value
