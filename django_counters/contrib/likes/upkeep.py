"""Rows of actors: compares them with the values, and forgets counters and persons."""

from __future__ import annotations

import secrets
from collections import Counter as Tally
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from django.db import router

from django_counters import clock
from django_counters.contrib.likes.models import CounterActor
from django_counters.contrib.likes.sql import ACTOR, SqlActors
from django_counters.errors import RecordMissing
from django_counters.event import Event
from django_counters.features import Drift
from django_counters.measure import Condition, Measure
from django_counters.registry import registry
from django_counters.stores.sql.dialects import Table, dialect_of
from django_counters.stores.sql.session import Session
from django_counters.stores.sql.tables import NAMED
from django_counters.tables import CounterMeasure
from django_counters.tables.schema import COUNTERS
from django_counters.tables.total import TotalField
from django_counters.types import UNBOUNDED, namespace_of
from django_counters.upkeep import columns
from django_counters.write.changes import Change, Ref, named
from django_counters.write.pipeline import change
from django_counters.write.records import native_of

_PAGE = 500


class ActorCounters(NamedTuple):
    """A namespace or a field whose counters count once for each actor."""

    measure: Measure
    field: TotalField | None = None

    @property
    def table(self) -> Table:
        """Return where the totals stand."""
        table: Table = self.field.declared().table if self.field else NAMED
        return table

    def has(self, key: str) -> bool:
        """Return whether a key of its table is one of its counters."""
        return self.field is not None or registry.policy(key).measure == self.measure

    def ref(self, key: str, using: str) -> Ref:
        """Return a counter, to be changed.

        Raises:
            InvalidKey: no record can have that key.
        """
        if self.field is None:
            return named(key, using)
        table, recipe, bounds, measure = self.field.declared()
        native = native_of(self.field.model, key, using)
        return Ref(table, native, recipe, bounds, using, measure=measure)


def _places(using: str) -> Iterator[ActorCounters]:
    """Yield the namespaces and fields of a database that declare ``once``."""
    if COUNTERS.stands_in(using):
        for policy in registry.policies().values():
            if policy.measure is not None and policy.options.get("once"):
                yield ActorCounters(policy.measure)
    for field in columns(using):
        if field.measure is not None and getattr(field, "options", {}).get("once"):
            yield ActorCounters(field.measure, field)


def drifts(using: str) -> Iterator[Drift]:
    """Yield the counters whose value is not their number of rows."""
    if "conditions" in dialect_of(using).lacks:
        return
    for place in _places(using):
        if place.measure.counts_rows:
            stored = registry.measures(using).find(place.measure.name)
            # A measure without a row has no actors: then all of its counters are zero.
            number = 0 if stored is None else stored.id
            for key, rows, value in registry.kept(SqlActors, using).differing(number, place.table):
                if place.has(key):
                    label = f"{place.table.label}:{key}" if place.field else key
                    yield Drift(label, rows, value)


def forget_rows(owner: str, keys: Sequence[str], using: str) -> int:
    """Delete the rows of counters; return their number."""
    if not router.allow_migrate_model(using, CounterActor):
        return 0
    groups: dict[str, list[str]] = {}
    for key in keys:
        measure = None if owner else registry.policy(key).measure
        name = owner or (measure.name if measure else namespace_of(key))
        groups.setdefault(name, []).append(key)
    deleted = 0
    for name, group in groups.items():
        stored = registry.measures(using).find(name)
        if stored is not None:
            rows = CounterActor._base_manager.using(using).filter(
                measure_id=stored.id, key__in=group
            )
            deleted += rows.delete()[0]
    return deleted


def forget_person(actor: str, using: str, *, keep_counts: bool, dry_run: bool) -> Mapping[str, int]:
    """Forget what a person has counted once; return how many rows were found of each kind.

    The count is taken back, so that a value stays the number of its actors. With ``keep_counts``
    each row gets a random name instead: it no longer shows whose it was, or that two rows were one
    person's. Rows of a cool-down are deleted: how often the person was counted isn't known, so
    the value stays in any case. Each row has a transaction of its own.
    """
    deeds = Tally({"taken_back": 0, "renamed": 0, "deleted": 0})
    if not router.allow_migrate_model(using, CounterActor):
        return deeds
    places = {place.measure.name: place for place in _places(using)}
    for row, measure in _rows_of(actor, using):
        place = places.get(measure)
        deed = "deleted"
        if place is not None and place.measure.counts_rows:
            deed = "renamed" if keep_counts else "taken_back"
        if not dry_run:
            deed = _forgotten(row, deed, place, using)
        deeds[deed] += 1
    return deeds


def _rows_of(actor: str, using: str) -> Iterator[tuple[CounterActor, str]]:
    """Yield the rows of a person, with the names of their measures."""
    rows = CounterActor._base_manager.using(using).filter(actor=actor)
    with Session(using).translated():
        measures = dict(
            CounterMeasure._base_manager.using(using).order_by("pk").values_list("pk", "name")
        )
        for number, name in measures.items():
            last = ""
            while page := list(rows.filter(measure=number, key__gt=last).order_by("key")[:_PAGE]):
                yield from ((row, name) for row in page)
                last = page[-1].key


def _forgotten(row: CounterActor, deed: str, place: ActorCounters | None, using: str) -> str:
    """Forget one row; return what became of it."""
    if deed == "taken_back" and place is not None:
        try:
            # Even if the count is below its floor now: the row goes in any case.
            ref = place.ref(row.key, using)._replace(bounds=UNBOUNDED)
            change(Change(ref, -1, event=Event(who=row.actor)))
            return deed
        except RecordMissing:
            deed = "deleted"
    actors = registry.kept(SqlActors, using)
    named_row = (row.measure_id, row.key, row.actor, clock.utc())
    condition = Condition(ACTOR, named_row, takes_back=True)
    with actors.all_or_nothing():
        if deed == "renamed":
            actors.rename(condition, secrets.token_hex(16))
        else:
            actors.met(condition)
    return deed
