"""Any counter, named or of a record: what is declared for it, and where it stands."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, replace
from dataclasses import field as part
from typing import Any

from django.apps import apps
from django.core.exceptions import FieldDoesNotExist, ValidationError
from django.db import connections, models, router

from django_counters.conf import Recipe
from django_counters.exceptions import InvalidAdjustment, InvalidKey, UnsavedInstance
from django_counters.models import Counter, SlottedCounter
from django_counters.models.adjustment import NAME_LENGTH
from django_counters.models.total import TotalField
from django_counters.registry import registry
from django_counters.stores.sql.dialects import Table
from django_counters.stores.sql.records import RecordKeys
from django_counters.stores.sql.tables import NAMED
from django_counters.types import Bounds, check_key
from django_counters.write import records as slotted


@dataclass(frozen=True, slots=True)
class Subject:
    """One counter.

    Attributes:
        field: empty for a named counter, else the model and the name: ``shop.Product.stock``.
        key: the key of a named counter, else the primary key of the record, as a text.
        bounds: what is declared for it.
        approve_above: by how much one person alone may adjust it; None: by any amount.
        model: whose record it belongs to; None for a named counter.
        home: the database that its record is written in, where it was given as an instance.
    """

    field: str
    key: str
    bounds: Bounds
    approve_above: int | None
    model: type[models.Model] | None
    native: Hashable = part(repr=False)
    table: Table = part(repr=False)
    recipe: Recipe = part(repr=False)
    home: str | None = part(default=None, repr=False, compare=False)

    @property
    def label(self) -> str:
        """What people call it."""
        return f"{self.field}:{self.key}" if self.field else self.key

    @property
    def strategy(self) -> str:
        """The name of its strategy."""
        return self.recipe.strategy

    @property
    def key_field(self) -> Any:
        """What the primary key of its model is; None for a named counter."""
        return None if self.model is None else self.model._meta.pk

    def alias(self, using: str | None) -> str:
        """The database that it is written in."""
        return using or self.home or router.db_for_write(self._written)

    @property
    def _written(self) -> type[models.Model]:
        if self.model is None:
            return Counter
        return self.model if self.table.value else SlottedCounter


def named(key: object) -> Subject:
    """The counter with a key.

    Raises:
        InvalidKey: it is none.
    """
    name = check_key(key)
    policy = registry.policy(name)
    return Subject("", name, policy.bounds, policy.approve_above, None, name, NAMED, policy.recipe)


def of_record(record: object, name: object, using: str | None = None) -> Subject:
    """A counter of a record: a field of its model, or one in slots.

    Raises:
        InvalidKey: the record is none, or the name cannot be one.
        UnsavedInstance: the record has no row yet.
    """
    model, counter = slotted.checked(record, name)
    column = slotted.column_of(model, counter)
    if column is None:
        alias = using or router.db_for_write(SlottedCounter, instance=record)
        native = slotted.key_of(record, registry.records(model, counter), alias)
        return replace(_of_model(model, counter, native), home=alias)
    pk: Any = column.model._meta.pk
    owner: Any = type(record)
    alias = using or router.db_for_write(owner, instance=record)
    key = getattr(record, pk.attname)
    if record._state.adding or key is None:  # type: ignore[attr-defined]
        raise UnsavedInstance(key=f"{column.model._meta.label}.{counter}:{key}")
    native = pk.get_db_prep_value(key, connections[alias])
    return replace(_of_model(model, counter, native), home=alias)


def of_key(model: type[models.Model], name: str, key: object, using: str) -> Subject:
    """A counter field of the record with a primary key, whether or not there is one.

    Raises:
        InvalidKey: no record can have it.
        InvalidAdjustment: the model has no such field.
    """
    column = slotted.column_of(model, name)
    if column is None:
        raise InvalidAdjustment(problem=f"{model._meta.label} has no counter field {name!r}")
    return _of_model(model, name, native_of(column.model, key, using))


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


def subject_of(label: str, key: str, using: str | None = None) -> Subject:
    """The counter that two texts name, as they stand in an adjustment.

    Raises:
        InvalidKey: the key cannot be one of such a counter.
        InvalidAdjustment: there is no such model, or it cannot have such a counter.
    """
    if not label:
        return named(key)
    model, name = _model_of(label)
    column = slotted.column_of(model, name)
    # The slots of a proxy are those of its model, and have one name.
    model = model._meta.concrete_model or model
    owner = column.model if column else model
    alias = using or router.db_for_write(owner if column else SlottedCounter)
    try:
        native = RecordKeys(owner._meta.pk, alias).natives([key])[key]
    except KeyError:
        raise InvalidKey(key=key, reason=f"no record of {owner._meta.label} has it") from None
    return _of_model(model, name, native)


def _model_of(label: str) -> tuple[type[models.Model], str]:
    path, _, name = label.rpartition(".")
    try:
        model = apps.get_model(path)
        field_of_name = model._meta.get_field(name)
    except FieldDoesNotExist:
        # Slots need no column, under any name that is not that of something else.
        return model, slotted.check_name(name)
    except (LookupError, ValueError):
        raise InvalidAdjustment(problem=f"there is no model for {label!r}") from None
    # The column of named counters is a total, too, and theirs alone.
    if not isinstance(field_of_name, TotalField) or field_of_name.model is Counter:
        raise InvalidAdjustment(problem=f"{label} is no counter")
    return model, name


def _of_model(model: type[models.Model], name: str, native: Any) -> Subject:
    column = slotted.column_of(model, name)
    if column is None:
        if not slotted.can_be_slotted(model):
            raise InvalidKey(key=native, reason="slots need an integer, UUID or text as record id")
        (table, recipe, bounds), limit, native = slotted.place_of(model, name), None, str(native)
    else:
        (table, recipe, bounds), limit = column.declared(), column.approve_above
        model = column.model
    if max(len(str(native)), len(table.label)) > NAME_LENGTH:
        reason = f"to be adjusted it may have {NAME_LENGTH} characters"
        raise InvalidKey(key=native, reason=reason)
    return Subject(table.label, str(native), bounds, limit, model, native, table, recipe)
