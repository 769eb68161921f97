"""Values of counters of records, in slots: whether or not there is a column for their totals."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.db import models

from django_counters.registry import registry
from django_counters.strategies.declaring import MAX_AGE
from django_counters.tables.core import SLOTS
from django_counters.types import Reading
from django_counters.write.records import checked, key_of, place_of


def values_of(records: Iterable[object], name: object, using: str | None) -> dict[Any, int]:
    """The values of one counter of many records, by their primary keys, in one query a model."""
    alias = SLOTS.reading(using)
    keys_of: dict[type[models.Model], dict[Any, Any]] = {}
    for record in records:
        model, counter = checked(record, name)
        table = place_of(model, counter).table
        keys_of.setdefault(model, {})[record.pk] = key_of(record, table, alias)  # type: ignore[attr-defined]
    values: dict[Any, int] = {}
    for model, keys in keys_of.items():
        table, recipe, *_ = place_of(model, str(name))
        found = registry.strategy(recipe, table, alias).values(keys.values())
        values.update({pk: found.get(key, 0) for pk, key in keys.items()})
    return values


def read(record: object, name: object, consistency: str, using: str | None) -> Reading:
    """One value of a record, and the known details of it."""
    model, counter = checked(record, name)
    alias = SLOTS.reading(using, instance=record)
    table, recipe, *_ = place_of(model, counter)
    key = key_of(record, table, alias)
    return registry.strategy(recipe, table, alias).read(key, consistency, MAX_AGE)
