"""Receivers of signals: what deleted records leave behind, and columns that migrations alter."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

from django.contrib.contenttypes.models import ContentType
from django.core.management import CommandError
from django.db import connections, migrations, models, router, transaction
from django.db.models.functions import Floor
from django.db.models.signals import class_prepared, post_delete, pre_delete
from django.db.transaction import Atomic

from django_counters.errors import CounterError
from django_counters.fields.columns import BaseCounterField, CounterField, counter_fields
from django_counters.registry import registry
from django_counters.tables.schema import SLOTS
from django_counters.write.changes import forget_added, forget_rows

# Deleted records: their amounts in slots, Redis and cells go with them.

logger = logging.getLogger("django_counters")
# How many records one statement forgets.
_IDS = 500
# What Django tells it will delete, by the block of a transaction. Each delete() has a block of its
# own, and tells of all instances before it deletes the first one.
_Leaving = dict[type[models.Model], list[models.Model]]
_leaving: WeakKeyDictionary[Atomic, _Leaving] = WeakKeyDictionary()


def _leaving_in(using: str) -> _Leaving:
    blocks = connections[using].atomic_blocks
    return _leaving.setdefault(blocks[-1], {}) if blocks else {}


def note_delete(
    sender: type[models.Model], instance: models.Model, using: str | None = None, **_: Any
) -> None:
    """Receives ``pre_delete``."""
    _leaving_in(_deleting(instance, using)).setdefault(sender, []).append(instance)


def forget_pending(
    sender: type[models.Model], instance: models.Model, using: str | None = None, **_: Any
) -> None:
    """Receives ``post_delete``: the first time, all instances of the model are gone."""
    using = _deleting(instance, using)
    # A signal that is not Django's comes without the other one.
    instances = _leaving_in(using).get(sender, [instance])
    for field in _own_fields(sender) if instances else ():
        keys = _keys(field, instances, using)
        if field.recipe.can.slots:
            _forget_slots(field, keys, using)
        if field.recipe.can.outside:
            _forget_in_redis(field, keys, using)
        if field.measure is not None:
            label = field.table.label
            forget_rows(label, field.measure, list(map(str, keys)), using)
        forget_added(field.table.label, list(map(str, keys)), using)
    instances.clear()


def _deleting(instance: models.Model, using: str | None) -> str:
    """Where it is deleted. Django tells; who makes the signal by hand may not."""
    return using or router.db_for_write(instance._meta.model, instance=instance)


def follow_deletes(sender: type[models.Model], **_: Any) -> None:
    """Receives ``class_prepared``."""
    # The models of old migrations have nothing to forget.
    if sender._meta.abstract or sender.__module__ == "__fake__":
        return
    if any(field.leaves_rows for field in _own_fields(sender)):
        pre_delete.connect(note_delete, sender=sender)
        post_delete.connect(forget_pending, sender=sender)


def _own_fields(model: type[models.Model]) -> list[CounterField]:
    """Return the counter fields of a model; of a proxy, also those that it inherits.

    Django sends no signal for the model of a proxy's instance.
    """
    return [field for field in counter_fields(model) if model._meta.proxy or field.model is model]


def _keys(field: CounterField, instances: Iterable[models.Model], using: str) -> list[Any]:
    key, connection = field.model._meta.pk, connections[using]
    given = (getattr(instance, key.attname) for instance in instances)
    return [key.get_db_prep_value(one, connection) for one in given]


def _forget_slots(field: CounterField, keys: Sequence[Any], using: str) -> None:
    """Delete what waits for records: new ones with their keys start at zero."""
    kind = ContentType.objects.db_manager(using).get_for_model(field.model)
    slots = SLOTS.rows(using).filter(record_type=kind, name=field.name)
    ids = list(map(str, keys))
    for start in range(0, len(ids), _IDS):
        slots.filter(record_id__in=ids[start : start + _IDS]).delete()


def _forget_in_redis(field: CounterField, keys: Sequence[Any], using: str) -> None:
    """Take what waits away when the deletion commits, and what that transaction has counted."""

    def warn(error: CounterError) -> None:
        # The records are gone: a flush records these increments as an incident.
        told = (field.table.label, len(keys), error)
        logger.warning("Pending increments of %s stay in Redis for %d deleted records: %s", *told)

    try:
        # Now, because the tenant at the commit may be another one.
        outside = registry.outside(field.recipe, field.table, using)
    except CounterError as error:
        warn(error)
        return

    def discard() -> None:
        try:
            if outside:
                outside.discard(keys, cells=field.measure is not None)
        except CounterError as error:
            warn(error)

    transaction.on_commit(discard, using=using, robust=True)


class_prepared.connect(follow_deletes)


# Migrations: a column isn't altered if its numbers would mean other amounts.

_DECIMAL = ("DecimalField", "FloatField")
_REMEDY = (
    "AlterField would change the numbers in {}: it makes no units of amounts, and no amounts of "
    "units. Alter the column to BigIntegerField first, and convert its numbers with RunPython or "
    "RunSQL: see Turn an existing column into a counter, Money, in the documentation."
)


def guard_columns(plan: Sequence[tuple[migrations.Migration, bool]] = (), **_: Any) -> None:
    """Receive ``pre_migrate``: let each AlterField of the plan look at its column first.

    Only the AlterField itself sees the column as earlier operations have left it.
    """
    for migration, _backwards in plan:
        for operation in _alterations(migration.operations):
            # AlterField also calls this method when it goes backwards.
            operation.database_forwards = partial(_alter, operation)


def _alterations(operations: Iterable[Any]) -> Iterator[Any]:
    for operation in operations:
        if isinstance(operation, migrations.SeparateDatabaseAndState):
            yield from _alterations(operation.database_operations)
        elif isinstance(operation, migrations.AlterField):
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
