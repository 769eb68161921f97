"""Refuses to alter a column if its numbers would mean other amounts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any

from django.core.management import CommandError
from django.db.migrations import AlterField, Migration, SeparateDatabaseAndState
from django.db.models.functions import Floor

from django_counters.fields.base import BaseCounterField

_DECIMAL = ("DecimalField", "FloatField")
_REMEDY = (
    "AlterField would change the numbers in {}: it makes no units of amounts, and no amounts of "
    "units. Alter the column to BigIntegerField first, and convert its numbers with RunPython or "
    "RunSQL: see Turn an existing column into a counter, Money, in the documentation."
)


def guard_columns(plan: Sequence[tuple[Migration, bool]] = (), **_: Any) -> None:
    """Receive ``pre_migrate``: let each AlterField of the plan look at its column first.

    Only the AlterField itself sees the column as earlier operations have left it.
    """
    for migration, _backwards in plan:
        for operation in _alterations(migration.operations):
            # AlterField also calls this method when it goes backwards.
            operation.database_forwards = partial(_alter, operation)


def _alterations(operations: Iterable[Any]) -> Iterator[Any]:
    for operation in operations:
        if isinstance(operation, SeparateDatabaseAndState):
            yield from _alterations(operation.database_operations)
        elif isinstance(operation, AlterField):
            yield operation


def _alter(operation: Any, label: str, editor: Any, before: Any, after: Any) -> None:
    """Alter the column.

    Raises:
        CommandError: PostgreSQL would cast 12.50 to 13, and a counter with two places reads 0.13.
    """
    model, altered = (one.apps.get_model(label, operation.model_name) for one in (before, after))
    alias = editor.connection.alias
    if operation.allow_migrate_model(alias, altered):
        old, new = (one._meta.get_field(operation.name) for one in (model, altered))
        if _changed(editor.connection, old, new).using(alias).exists():
            raise CommandError(_REMEDY.format(f"{model._meta.label}.{operation.name}"))
    type(operation).database_forwards(operation, label, editor, before, after)


def _changed(connection: Any, old: Any, new: Any) -> Any:
    """Return the rows whose number would be another amount in the new field."""
    rows = old.model._base_manager.filter(**{f"{old.name}__isnull": False})
    if isinstance(new, BaseCounterField):
        if _column_type(connection, old) not in _DECIMAL:
            return rows.none()
        return rows.exclude(**{old.name: Floor(old.name) if new.is_whole else 0})
    # The fields of other packages have the numbers of their columns.
    was_whole, is_whole = (getattr(field, "is_whole", True) for field in (old, new))
    if was_whole or not is_whole or new.get_internal_type() not in _DECIMAL:
        return rows.none()
    return rows.exclude(**{old.name: 0})


def _column_type(connection: Any, field: Any) -> str | None:
    """Return the type that the column has in the database at this moment."""
    introspection = connection.introspection
    with connection.cursor() as cursor:
        described = introspection.get_table_description(cursor, field.model._meta.db_table)
    kinds = {one.name: introspection.get_field_type(one.type_code, one) for one in described}
    return kinds.get(field.column)
