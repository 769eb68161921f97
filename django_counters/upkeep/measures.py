"""The upkeep of counting by period: its names, and expired periods."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Iterator
from datetime import timedelta
from zoneinfo import ZoneInfo

from django.apps import apps
from django.db import DEFAULT_DB_ALIAS, router

from django_counters import clock
from django_counters.calendar import PERIODS, period_of
from django_counters.measure import Measure
from django_counters.registry import registry
from django_counters.stores.sql.cells import SqlCells
from django_counters.stores.sql.session import Session
from django_counters.tables import CounterCell, CounterMeasure
from django_counters.tables.core import COUNTERS
from django_counters.tables.measured import OfPeriod
from django_counters.tables.total import TotalField
from django_counters.upkeep.places import present_name


def declared_measures(using: str) -> Iterator[Measure]:
    """The measures of the counters that a database holds."""
    if COUNTERS.stands_in(using):
        for policy in registry.policies().values():
            if policy.measure is not None:
                yield policy.measure
    for model in apps.get_models(include_auto_created=True):
        if router.allow_migrate_model(using, model):
            for field in model._meta.local_concrete_fields:
                if isinstance(field, TotalField) and field.measure is not None:
                    yield field.measure


def make_measures(using: str) -> None:
    """Make the rows of all declared measures, so that no increment has to.

    One whose field has another name now, as the migrations say, keeps its row and its cells.
    """
    measures = registry.measures(using)
    declared = list(declared_measures(using))
    rows = CounterMeasure._base_manager.using(using)
    known = set(rows.values_list("name", flat=True))
    for name in known - {measure.name for measure in declared}:
        if name.count(".") < 2:
            continue
        present = present_name(name)
        heirs = [one.name for one in declared if _as_migrations_say(one.name) == present]
        if heirs and heirs[0] not in known:
            rows.filter(name=name).update(name=heirs[0])
    for measure in declared:
        measures.ensure(measure)


def _as_migrations_say(label: str) -> str:
    """A label with the name of its model as migrations have it."""
    app, _, name = label.rpartition(".")
    return f"{app.lower()}.{name}"


def prune_cells(using: str = DEFAULT_DB_ALIAS) -> int:
    """Forget cells and sets that are older than ``KEEP`` says; how many. In small batches.

    Coarser cells were written together with them, and stay. Any number of these can run at once.
    """
    if not router.allow_migrate_model(using, CounterCell):
        return 0
    for table in OfPeriod.tables():
        table.before_pruning(using)
    return sum(_prune(measure, using) for measure in declared_measures(using))


def _prune(measure: Measure, using: str) -> int:
    measures, cells = registry.measures(using), SqlCells(Session(using))
    stored, gone = measures.find(measure.name), 0
    if stored is None:
        return gone
    for period, days in measure.keep:
        # One that began before is kept as long as a part of it is.
        since = clock.utc() - timedelta(days=days)
        before, _ = period_of(period, since, ZoneInfo(stored.zone))
        place = stored.id, PERIODS.index(period) + 1, before
        found: Tally[str] = Tally()
        for table in OfPeriod.tables():
            key = [field.attname for field in table._meta.pk_fields]
            forgotten = cells.forget(table._meta.db_table, key, *place)
            # What is derived from others is known as long as they are.
            if not table.of_kind.derived:
                found[table.of_kind.known_as(period)] += forgotten
        for name in +found:
            measures.forgotten(measure.name, name, before)
            gone += found[name]
    return gone
