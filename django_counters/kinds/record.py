"""Numbers of a record, in slots: whether or not its model has a column for their totals."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from django.db import connections, models, router

from django_counters.conf import MAX_AGE, Recipe
from django_counters.exceptions import InvalidKey, UnsavedInstance, UnsupportedToken
from django_counters.kinds.applying import applied
from django_counters.kinds.once import Call, once
from django_counters.kinds.registry import registry
from django_counters.models import SlottedCounter
from django_counters.models.slot import NAME_LENGTH, RECORD_ID_LENGTH
from django_counters.models.total import TotalField
from django_counters.stores.sql.dialects import Table
from django_counters.strategies.base import Strategy
from django_counters.tokens import check_token
from django_counters.types import UNBOUNDED, Batch, Bounds, Delta, Reading, why_no_key
from django_counters.values import Result, Unknown, told

_SLOTTED = Recipe("slotted")


class Place(NamedTuple):
    """Where a counter of a model's records stands, and what is declared for it."""

    table: Table
    recipe: Recipe
    bounds: Bounds = UNBOUNDED


def change(
    record: object, name: object, by: int, using: str | None, token: object = None
) -> Result:
    """Change one number of a record and return its new value; ``by`` is a checked delta."""
    model, counter = checked(record, name)
    alias = using or router.db_for_write(SlottedCounter, instance=record)
    table, recipe, bounds = place_of(model, counter)
    delta = Delta(key_of(record, table, alias), by, bounds)
    return apply(delta, registry.strategy(recipe, table, alias), table, alias, token)


def apply(
    delta: Delta,
    strategy: Strategy,
    table: Table,
    using: str,
    token: object,
    immediately: bool = False,
) -> Result:
    """Apply a change of a record's counter, once where it has a token; the value."""
    batch = Batch((delta,), None, immediately)
    if token is None:
        return told(applied(strategy, batch, using, table.label)[delta.key])
    if not strategy.claims_tokens:
        reason = "what Redis loses could not be told from what was never there"
        raise UnsupportedToken(what=f"{table.label}, which is cached,", reason=reason)
    text = str(delta.key)
    call = Call(table.label, {text: delta.by})

    def work() -> dict[str, int | Unknown]:
        return {text: applied(strategy, batch, using, table.label)[delta.key]}

    answer = once(check_token(token), call, using, work)
    return answer.values[text]


def values_of(records: Iterable[object], name: object, using: str | None) -> dict[Any, int]:
    """The values of one counter of many records, by their primary keys, in one query a model."""
    alias = using or router.db_for_read(SlottedCounter)
    keys_of: dict[type[models.Model], dict[Any, Any]] = {}
    for record in records:
        model, counter = checked(record, name)
        table = place_of(model, counter).table
        keys_of.setdefault(model, {})[record.pk] = key_of(record, table, alias)  # type: ignore[attr-defined]
    values: dict[Any, int] = {}
    for model, keys in keys_of.items():
        table, recipe, _ = place_of(model, str(name))
        found = registry.strategy(recipe, table, alias).values(keys.values())
        values.update({pk: found.get(key, 0) for pk, key in keys.items()})
    return values


def read(record: object, name: object, consistency: str, using: str | None) -> Reading:
    """One value of a record, and what is known of it."""
    model, counter = checked(record, name)
    alias = using or router.db_for_read(SlottedCounter, instance=record)
    table, recipe, _ = place_of(model, counter)
    key = key_of(record, table, alias)
    return registry.strategy(recipe, table, alias).read(key, consistency, MAX_AGE)


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
