"""Deletes expired periods."""

from __future__ import annotations

from collections import Counter as Tally
from datetime import timedelta
from zoneinfo import ZoneInfo

from django.db import DEFAULT_DB_ALIAS, router

from django_counters import clock
from django_counters.contrib.series.calendar import PERIODS, period_of
from django_counters.contrib.series.models import CounterCell, OfPeriod
from django_counters.contrib.series.sql import SqlPeriods
from django_counters.measure import Measure
from django_counters.registry import registry
from django_counters.stores.sql.measures import SqlMeasures, known_as
from django_counters.upkeep import declared_measures


def prune_cells(using: str = DEFAULT_DB_ALIAS) -> int:
    """Forget cells and sets that are older than ``KEEP`` says; how many. In small batches.

    Coarser cells were written together with them, and stay. Any number of these can run at once.
    """
    if not router.allow_migrate_model(using, CounterCell):
        return 0
    for table in OfPeriod.tables():
        table.before_pruning(using)
    measures, periods = registry.measures(using), registry.kept(SqlPeriods, using)
    return sum(_prune(measure, measures, periods) for measure in declared_measures(using))


def _prune(measure: Measure, measures: SqlMeasures, periods: SqlPeriods) -> int:
    stored, gone = measures.find(measure.name), 0
    if stored is None:
        return gone
    for period, days in measure.declared("keep"):
        # One that began before is kept as long as a part of it is.
        since = clock.utc() - timedelta(days=days)
        before, _ = period_of(period, since, ZoneInfo(stored.zone))
        place = stored.id, PERIODS.index(period) + 1, before
        found: Tally[str] = Tally()
        for table in OfPeriod.tables():
            forgotten = periods.forget(table, *place)
            # What is derived from others is known as long as they are.
            if not table.of_kind.derived:
                found[known_as(table.of_kind, period)] += forgotten
        for name in +found:
            measures.forgotten(measure.name, name, before)
            gone += found[name]
    return gone
