"""Deletes expired rows."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta

from django.db import DEFAULT_DB_ALIAS, router

from django_counters import clock
from django_counters.registry import registry
from django_counters.stores.sql.batches import REMEMBERED, SqlBatches
from django_counters.tables import CounterBatch, CounterIncident, CounterPosition, CounterToken
from django_counters.upkeep.hooks import attempted
from django_counters.upkeep.measures import prune_cells
from django_counters.write.pages import SOURCE

INCIDENTS_KEPT = timedelta(days=366)
_BATCH = 1_000


def prune_all(using: str = DEFAULT_DB_ALIAS) -> tuple[dict[str, int], dict[str, str]]:
    """Delete all expired rows. Return how many of each kind, and the errors of apps by app."""
    failed: dict[str, str] = {}
    pruned = Counter(
        tokens=prune(using),
        generations=prune_landed(using),
        histories=prune_histories(using),
        cells=prune_cells(using),
        incidents=prune_incidents(using),
    )
    for rows in attempted(using, lambda feature: feature.prune(using), failed):
        pruned.update(rows)
    return dict(pruned), failed


def prune(using: str = DEFAULT_DB_ALIAS) -> int:
    """Forget tokens that are out of their window; how many those were. In small batches."""
    if not router.allow_migrate_model(using, CounterToken):
        return 0
    return registry.tokens(using).prune()


def prune_landed(using: str = DEFAULT_DB_ALIAS) -> int:
    """Forget generations that landed 30 days ago; how many those were. In small batches.

    One that is forgotten cannot land again: a flush refuses what is older than 28 days. The clock
    is that of the database.
    """
    if not router.allow_migrate_model(using, CounterBatch):
        return 0
    return registry.kept(SqlBatches, using).prune()


def prune_histories(using: str = DEFAULT_DB_ALIAS) -> int:
    """Delete histories of pages that stood still for 30 days, in small batches; return how many.

    None of them continues: after a day without a page, a new history begins. Published pages are
    refused when they are older than 28 days. The times are the database's.
    """
    if not router.allow_migrate_model(using, CounterPosition):
        return 0
    before = registry.kept(SqlBatches, using).now() - REMEMBERED
    return registry.positions(using).prune(SOURCE, before)


def prune_incidents(using: str = DEFAULT_DB_ALIAS) -> int:
    """Forget incidents that were found a year ago; how many those were. In small batches."""
    if not router.allow_migrate_model(using, CounterIncident):
        return 0
    rows = CounterIncident._base_manager.using(using)
    old, number = rows.filter(found_at__lt=clock.now() - INCIDENTS_KEPT), 0
    while batch := list(old.values_list("pk", flat=True)[:_BATCH]):
        number += rows.filter(pk__in=batch).delete()[0]
    return number
