"""Which counters a record has, in slots or in a column, and where they stand."""

from __future__ import annotations

from typing import Any, NamedTuple

from django.db import connections, models, router

from django_counters.conf import Recipe
from django_counters.exceptions import InvalidKey, UnsavedInstance
from django_counters.models import SlottedCounter
from django_counters.models.slot import NAME_LENGTH, RECORD_ID_LENGTH
from django_counters.models.total import TotalField
from django_counters.registry import registry
from django_counters.stores.sql.dialects import Table
from django_counters.types import UNBOUNDED, Bounds, why_no_key
from django_counters.write.change import Ref

_SLOTTED = Recipe("slotted")


class Place(NamedTuple):
    """Where a counter of a model's records stands, and what is declared for it."""

    table: Table
    recipe: Recipe
    bounds: Bounds = UNBOUNDED


def ref_of(record: object, name: object, using: str | None) -> Ref:
    """A counter of a record, to be changed in its slots.

    Raises:
        InvalidKey: the record is none, or the name cannot be one.
        UnsavedInstance: the record has no row yet.
    """
    model, counter = checked(record, name)
    alias = using or router.db_for_write(SlottedCounter, instance=record)
    table, recipe, bounds = place_of(model, counter)
    return Ref(table, key_of(record, table, alias), recipe, bounds, alias)


def place_of(model: type[models.Model], name: str) -> Place:
    """Where a counter of a model's records stands, and what is declared for its slots."""
    column = column_of(model, name)
    return Place(registry.records(model, name), _SLOTTED) if column is None else column.place()


def column_of(model: type[models.Model], name: str) -> TotalField | None:
    """The field that holds the totals of a counter of a model's records, if there is one."""
    columns = (field for field in model._meta.concrete_fields if isinstance(field, TotalField))
    return next((field for field in columns if field.name == name), None)


def checked(record: object, name: object) -> tuple[type[models.Model], str]:
    """The model of a record and the name of its counter, if they can be that."""
    if not isinstance(record, models.Model):
        raise InvalidKey(key=record, reason="it is not an instance of a model")
    return type(record)._meta.concrete_model or type(record), check_name(name)


def check_name(name: object) -> str:
    """Refuse what cannot be the name of a counter of records."""
    reason = why_no_key(name)
    if reason is None and len(str(name)) > NAME_LENGTH:
        reason = f"as the name of a counter it may have {NAME_LENGTH} characters"
    if reason:
        raise InvalidKey(key=name, reason=reason)
    return str(name)


def key_of(record: Any, table: Table, alias: str) -> Any:
    """What finds the total of a record's counter in slots."""
    if record._state.adding or record.pk is None:
        raise UnsavedInstance(key=f"{table.label}:{record.pk}")
    # An inherited column stands in the row of the parent, under the parent's key.
    model, _ = table.pending.record or (type(record), "")
    if not can_be_slotted(model):
        raise InvalidKey(key=record.pk, reason="slots need an integer, UUID or text as record id")
    field = model._meta.pk
    key = field.get_db_prep_value(getattr(record, field.attname), connections[alias])
    check_record_id(key)
    return key if table.value else str(key)


def can_be_slotted(model: type[models.Model]) -> bool:
    """Whether a primary key has one text, the same in Python and in the database."""
    field: Any = model._meta.pk
    while field.is_relation:
        field = field.target_field
    kinds = (models.IntegerField, models.UUIDField, models.CharField, models.TextField)
    return isinstance(field, kinds)


def check_record_id(key: object) -> None:
    """Refuse a primary key that is too long to stand in a slot."""
    if len(str(key)) > RECORD_ID_LENGTH:
        reason = f"as a record id it may have {RECORD_ID_LENGTH} characters"
        raise InvalidKey(key=key, reason=reason)
