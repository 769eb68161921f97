"""Counters of records, in slots or in a column: which there are, and where they stand."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from django.apps import apps
from django.core.exceptions import FieldDoesNotExist, ValidationError
from django.db import connections, models, router

from django_counters.errors import InvalidAdjustment, InvalidKey, UnsavedInstance
from django_counters.measure import Measure
from django_counters.registry import registry
from django_counters.stores.sql.dialects import Table
from django_counters.stores.sql.tables import RecordKeys
from django_counters.strategies.declaring import Recipe
from django_counters.strategies.spread import SLOTTED
from django_counters.tables.schema import (
    COUNTERS,
    NAME_LENGTH,
    RECORD_ID_LENGTH,
    SLOTS,
    CounterColumns,
)
from django_counters.tables.total import TotalField
from django_counters.types import SUBJECT_LENGTH, UNBOUNDED, Bounds, why_no_key
from django_counters.write.changes import Ref, named

_SLOTTED = SLOTTED.recipe(of_field=True)


class CounterColumn(NamedTuple):
    """Where a counter of a model's records stands, and the declaration for it."""

    table: Table
    recipe: Recipe
    bounds: Bounds = UNBOUNDED
    measure: Measure | None = None


def in_slots(record: object, name: object, using: str | None) -> Ref:
    """A counter of a record, to be changed in its slots.

    Raises:
        InvalidKey: the record is none, or the name cannot be one.
        UnsavedInstance: the record has no row yet.
    """
    model, counter = checked(record, name)
    alias = SLOTS.writing(using, instance=record)
    table, recipe, bounds, measure = place_of(model, counter)
    key = key_of(record, table, alias)
    return Ref(table, key, recipe, bounds, alias, measure=measure)


def place_of(model: type[models.Model], name: str) -> CounterColumn:
    """Where a counter of a model's records stands, and the declaration for its slots."""
    column = column_of(model, name)
    return (
        CounterColumn(registry.records(model, name), _SLOTTED) if column is None else column.place()
    )


def column_of(model: type[models.Model], name: str) -> TotalField | None:
    """The field that holds the totals of a counter of a model's records, if there is one."""
    columns = (field for field in model._meta.concrete_fields if isinstance(field, TotalField))
    return next((field for field in columns if field.name == name), None)


def ref_to(counter: object, using: str | None = None, *, reads: bool = False) -> Ref:
    """Return the counter that a call of an app names: a key, the value of a field, or a `Ref`.

    ``reads``: it is only read, so a router chooses among the databases that are read from.

    Raises:
        InvalidKey: it isn't a counter.
        UnsavedInstance: the record of the value has no row yet.
    """
    if isinstance(counter, Ref):
        return counter
    of_value: Callable[..., Ref] | None = getattr(counter, "ref_in", None)
    if of_value:
        return of_value(using, reads=reads)
    return named(counter, COUNTERS.reading(using) if reads else using)


def declared_options(ref: Ref) -> Mapping[str, Any]:
    """Return the options of a counter's namespace or field, by their names in small letters."""
    record = ref.table.pending.record
    if record is None:
        return registry.policy(ref.text).options
    return getattr(column_of(*record), "options", {})


def is_whole(ref: Ref) -> bool:
    """Return whether callers have a counter's own numbers, and not amounts with decimal places."""
    record = ref.table.pending.record
    column = column_of(*record) if record else None
    return column is None or column.is_whole


def checked(record: object, name: object) -> tuple[type[models.Model], str]:
    """The model of a record and the name of its counter, if they can be that."""
    if not isinstance(record, models.Model):
        raise InvalidKey(key=record, reason="it is not an instance of a model")
    # A lazy object such as request.user has the model's _meta, and a class of its own.
    model: Any = record._meta.concrete_model
    return model, check_name(name)


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
    model, _ = table.pending.record or (record._meta.model, "")
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


def of_record(record: object, name: object, using: str | None = None) -> Ref:
    """A counter of a record: a field of its model, or one in slots.

    Raises:
        InvalidKey: the record is none, or the name cannot be one.
        UnsavedInstance: the record has no row yet.
    """
    model, counter = checked(record, name)
    column = column_of(model, counter)
    if column is None:
        alias = SLOTS.writing(using, instance=record)
        native = key_of(record, registry.records(model, counter), alias)
        return _of_model(model, counter, native, alias)
    pk: Any = column.model._meta.pk
    owner: Any = record._meta.model  # type: ignore[attr-defined]
    alias = using or router.db_for_write(owner, instance=record)
    key = getattr(record, pk.attname)
    if record._state.adding or key is None:  # type: ignore[attr-defined]
        raise UnsavedInstance(key=f"{column.model._meta.label}.{counter}:{key}")
    native = pk.get_db_prep_value(key, connections[alias])
    return _of_model(model, counter, native, alias)


def of_key(model: type[models.Model], name: str, key: object, using: str) -> Ref:
    """A counter field of the record with a primary key, whether or not there is one.

    Raises:
        InvalidKey: no record can have it.
        InvalidAdjustment: the model has no such field.
    """
    column = column_of(model, name)
    if column is None:
        raise InvalidAdjustment(problem=f"{model._meta.label} has no counter field {name!r}")
    return _of_model(model, name, native_of(column.model, key, using), using)


def native_of(model: type[models.Model], key: object, using: str) -> Any:
    """A primary key as the column of a model holds it.

    Raises:
        InvalidKey: no record can have it.
    """
    pk: Any = model._meta.pk
    try:
        # A number that is no integer would be cut to one, and nothing would be a text.
        if key is None or isinstance(key, float | bool):
            raise TypeError(key)
        native = str(pk.get_db_prep_value(str(pk.to_python(key)), connections[using]))
        return RecordKeys(pk, using).natives([native])[native]
    except (ValidationError, ValueError, TypeError, OverflowError, KeyError):
        raise InvalidKey(key=key, reason=f"no record of {model._meta.label} has it") from None


def ref_of(label: str, key: str, using: str | None = None) -> Ref:
    """The counter that two texts name, as they stand in an adjustment.

    Raises:
        InvalidKey: the key cannot be one of such a counter.
        InvalidAdjustment: there is no such model, or it cannot have such a counter.
    """
    if not label:
        return named(key, using)
    model, name = _model_of(label)
    column = column_of(model, name)
    # The slots of a proxy are those of its model, and have one name.
    model = model._meta.concrete_model or model
    owner = column.model if column else model
    alias = using or router.db_for_write(owner if column else SLOTS.model)
    try:
        native = RecordKeys(owner._meta.pk, alias).natives([key])[key]
    except KeyError:
        raise InvalidKey(key=key, reason=f"no record of {owner._meta.label} has it") from None
    return _of_model(model, name, native, alias)


def _model_of(label: str) -> tuple[type[models.Model], str]:
    path, _, name = label.rpartition(".")
    try:
        model = apps.get_model(path)
        field_of_name = model._meta.get_field(name)
    except FieldDoesNotExist:
        # Slots need no column, under any name that is not that of something else.
        return model, check_name(name)
    except (LookupError, ValueError):
        raise InvalidAdjustment(problem=f"there is no model for {label!r}") from None
    # The column of named counters is a total, too, and theirs alone.
    is_total = isinstance(field_of_name, TotalField)
    if not is_total or issubclass(field_of_name.model, CounterColumns):
        raise InvalidAdjustment(problem=f"{label} is no counter")
    return model, name


def _of_model(model: type[models.Model], name: str, native: Any, using: str) -> Ref:
    column = column_of(model, name)
    if column is None:
        if not can_be_slotted(model):
            raise InvalidKey(key=native, reason="slots need an integer, UUID or text as record id")
        place, limit, native = place_of(model, name), None, str(native)
    else:
        place, limit = column.declared(), column.approve_above
    table, recipe, bounds, measure = place
    if max(len(str(native)), len(table.label)) > SUBJECT_LENGTH:
        reason = f"to be adjusted it may have {SUBJECT_LENGTH} characters"
        raise InvalidKey(key=native, reason=reason)
    return Ref(table, native, recipe, bounds, using, limit, measure)
