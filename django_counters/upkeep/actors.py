"""Counters that count actors: whether they have as many rows as they count."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from django.apps import apps
from django.db import router

from django_counters.features import Drift
from django_counters.measure import Measure
from django_counters.registry import registry
from django_counters.stores.sql.dialects import Table
from django_counters.stores.sql.tables import NAMED
from django_counters.tables.standing import COUNTERS
from django_counters.tables.total import TotalField
from django_counters.write.change import Ref, named
from django_counters.write.records import native_of


class ActorCounters(NamedTuple):
    """A namespace, or a field, whose counters count once for each actor."""

    measure: Measure
    field: TotalField | None = None

    @property
    def table(self) -> Table:
        """Where the totals stand."""
        table: Table = self.field.declared().table if self.field else NAMED
        return table

    def has(self, key: str) -> bool:
        """Whether a key of its table is one of its counters."""
        return self.field is not None or registry.policy(key).measure == self.measure

    def label(self, key: str) -> str:
        """What people call a counter."""
        return f"{self.table.label}:{key}" if self.field else key

    def ref(self, key: str, using: str) -> Ref:
        """A counter, to be changed.

        Raises:
            InvalidKey: no record can have that key.
        """
        if self.field is None:
            return named(key, using)
        table, recipe, bounds, measure = self.field.declared()
        native = native_of(self.field.model, key, using)
        return Ref(table, native, recipe, bounds, using, measure=measure)


def once_places(using: str) -> Iterator[ActorCounters]:
    """The namespaces and fields of a database whose counters have a condition."""
    if COUNTERS.stands_in(using):
        for policy in registry.policies().values():
            if policy.measure is not None and policy.measure.condition is not None:
                yield ActorCounters(policy.measure)
    for model in apps.get_models(include_auto_created=True):
        if router.allow_migrate_model(using, model):
            for field in model._meta.local_concrete_fields:
                if isinstance(field, TotalField) and field.measure and field.measure.condition:
                    yield ActorCounters(field.measure, field)


def counting_actors(using: str, namespace: str | None = None) -> Iterator[ActorCounters]:
    """Those of which the value is how many actors there are; or a namespace alone."""
    for place in once_places(using):
        if place.measure.counts_rows and namespace in (None, place.measure.name):
            yield place


def differing(place: ActorCounters, using: str) -> Iterator[Drift]:
    """The counters of a place whose value is not how many rows of actors they have."""
    stored = registry.measures(using).find(place.measure.name)
    # A measure without a row has no actors: then all of its counters are zero.
    number = 0 if stored is None else stored.id
    for key, rows, value in registry.actors(using).differing(number, place.table):
        if place.has(key):
            yield Drift(place.label(key), rows, value)
