"""The amount that waits in slots and in Redis, and is in cells and actors, goes with deleted
records."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any
from weakref import WeakKeyDictionary

from django.contrib.contenttypes.models import ContentType
from django.db import connections, models, transaction
from django.db.models.signals import class_prepared, post_delete, pre_delete
from django.db.transaction import Atomic

from django_counters.exceptions import CounterError
from django_counters.fields.columns import CounterField, counter_fields
from django_counters.measure import Measure
from django_counters.registry import registry
from django_counters.tables.measured import OfCounter
from django_counters.tables.standing import SLOTS

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


def note_delete(sender: type[models.Model], instance: models.Model, using: str, **_: Any) -> None:
    """Receives ``pre_delete``."""
    _leaving_in(using).setdefault(sender, []).append(instance)


def forget_pending(
    sender: type[models.Model], instance: models.Model, using: str, **_: Any
) -> None:
    """Receives ``post_delete``: the first time, all instances of the model are gone."""
    # A signal that is not Django's comes without the other one.
    instances = _leaving_in(using).get(sender, [instance])
    for field in _waiting_elsewhere(sender) if instances else ():
        keys = _keys(field, instances, using)
        if field.recipe.can.slots:
            _forget_slots(field, keys, using)
        if field.recipe.can.outside:
            _forget_in_redis(field, keys, using)
        if field.measure is not None:
            _forget_rows(field.measure, keys, using)
    instances.clear()


def follow_deletes(sender: type[models.Model], **_: Any) -> None:
    """Receives ``class_prepared``."""
    # The models of old migrations have nothing to forget.
    if sender._meta.abstract or sender.__module__ == "__fake__":
        return
    if _waiting_elsewhere(sender):
        pre_delete.connect(note_delete, sender=sender)
        post_delete.connect(forget_pending, sender=sender)


def _waiting_elsewhere(model: type[models.Model]) -> list[CounterField]:
    """The amount that waits for these goes with a record; a proxy's delete is told of the proxy
    alone."""
    return [
        field
        for field in counter_fields(model)
        if field.recipe.can.slots or field.recipe.can.outside or field.measure
        if model._meta.proxy or field.model is model
    ]


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


def _forget_rows(measure: Measure, keys: Sequence[Any], using: str) -> None:
    """Delete what belongs to records: new ones with their keys begin anew."""
    stored = registry.measures(using).find(measure.name)
    if stored is not None:
        ids = list(map(str, keys))
        for start in range(0, len(ids), _IDS):
            some = ids[start : start + _IDS]
            # Ranks are found by the cells.
            found = [table.of_keys(measure, stored.id, some, using) for table in OfCounter.tables()]
            for rows in chain.from_iterable(found):
                rows.delete()


def _forget_in_redis(field: CounterField, keys: Sequence[Any], using: str) -> None:
    """Take what waits away when the deletion commits, and what that transaction has counted."""

    def discard() -> None:
        try:
            outside = registry.outside(field.recipe, field.table, using)
            if outside:
                outside.discard(keys, cells=field.measure is not None)
        except CounterError as error:
            # They are deleted. A flush finds what it can add to no record, and writes it down.
            told = (field.table.label, len(keys), error)
            logger.warning(
                "Pending increments of %s stay in Redis for %d deleted records: %s", *told
            )

    transaction.on_commit(discard, using=using, robust=True)


class_prepared.connect(follow_deletes)
