"""Slots go with the records that Django deletes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from weakref import WeakKeyDictionary

from django.contrib.contenttypes.models import ContentType
from django.db import connections, models
from django.db.models.signals import class_prepared, post_delete, pre_delete
from django.db.transaction import Atomic

from django_counters.fields.columns import CounterField, counter_fields
from django_counters.models import SlottedCounter

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


def forget_slots(sender: type[models.Model], instance: models.Model, using: str, **_: Any) -> None:
    """Receives ``post_delete``: the first time, all instances of the model are gone."""
    # A signal that is not Django's comes without the other one.
    instances = _leaving_in(using).get(sender, [instance])
    for field in _slotted(sender) if instances else ():
        _forget(field, instances, using)
    instances.clear()


def follow_deletes(sender: type[models.Model], **_: Any) -> None:
    """Receives ``class_prepared``."""
    # The models of old migrations have nothing to forget.
    if not sender._meta.abstract and sender.__module__ != "__fake__" and _slotted(sender):
        pre_delete.connect(note_delete, sender=sender)
        post_delete.connect(forget_slots, sender=sender)


def _slotted(model: type[models.Model]) -> list[CounterField]:
    """Whose slots go with a record; what is deleted through a proxy is told of the proxy alone."""
    slotted = (field for field in counter_fields(model) if field.strategy == "slotted")
    return [field for field in slotted if model._meta.proxy or field.model is model]


def _forget(field: CounterField, instances: Sequence[models.Model], using: str) -> None:
    """Delete what waits for records: new ones with their keys start at zero."""
    key, connection = field.model._meta.pk, connections[using]
    kind = ContentType.objects.db_manager(using).get_for_model(field.model)
    given = (getattr(instance, key.attname) for instance in instances)
    ids = [str(key.get_db_prep_value(one, connection)) for one in given]
    slots = SlottedCounter._base_manager.using(using).filter(record_type=kind, name=field.name)
    for start in range(0, len(ids), _IDS):
        slots.filter(record_id__in=ids[start : start + _IDS]).delete()


class_prepared.connect(follow_deletes)
