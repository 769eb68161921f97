"""All places of one database where increments may wait for their rollup."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

from django.apps import apps
from django.contrib.contenttypes.models import ContentType
from django.db import models, router

from django_counters.stores.sql.folding import Folded, SqlFolding
from django_counters.stores.sql.tables import NAMED, slots
from django_counters.tables.counter import CounterColumns
from django_counters.tables.standing import COUNTERS, SLOTS
from django_counters.tables.total import TotalField
from django_counters.upkeep.renames import present_name, removed_fields
from django_counters.write.records import column_of, place_of


@dataclass(frozen=True)
class Foldable:
    """The shards of all named counters, or the slots of one counter of a model's records.

    ``strategy`` is what the counter of the records declares; namespaces declare their own.
    ``left`` is what waits there, where that was asked for.
    """

    label: str
    folding: SqlFolding
    strategy: str = ""
    left: Folded | None = None


def places(using: str) -> Iterator[Foldable]:
    """The places that may hold something; what belongs to removed models is left alone."""
    if not COUNTERS.stands_in(using):
        return
    yield Foldable("shards", SqlFolding(NAMED, using, None))
    for column in sorted(columns(using), key=lambda field: (field.model._meta.label, field.name)):
        place = _place(column.model, column.name, using)
        left = place.folding.left()
        if left.rows:
            yield replace(place, left=left)
    for model, name in _undeclared(using):
        yield _renamed(model, name, using) or _place(model, name, using)


def renamed(using: str) -> Iterator[Foldable]:
    """Slots that have the name that a field had before, to be folded into its column."""
    return filter(None, (_renamed(model, name, using) for model, name in _undeclared(using)))


def _undeclared(using: str) -> Iterator[tuple[type[models.Model], str]]:
    declared = {(field.model, field.name) for field in columns(using)}
    for kind, name in _kinds(using):
        model = kind.model_class()
        if model is not None and (model, name) not in declared:
            yield model, name


def _renamed(model: type[models.Model], name: str, using: str) -> Foldable | None:
    present = present_name(f"{model._meta.label}.{name}").split(".", 2)[2]
    column = column_of(model, present)
    if present == name or column is None:
        return None
    table = replace(column.place().table, pending=slots(model, name))
    folding = SqlFolding(table, using, model._meta.pk)
    return Foldable(f"slots of {model._meta.label}.{name}", folding, column.strategy)


def _place(model: type[models.Model], name: str, using: str) -> Foldable:
    table = place_of(model, name).table
    key = model._meta.pk if table.value else None
    label = f"slots of {model._meta.label}.{name}"
    column = column_of(model, name)
    # Counters without a column are in slots.
    strategy = "slotted" if column is None else column.strategy
    return Foldable(label, SqlFolding(table, using, key), strategy)


def columns(using: str) -> Iterator[TotalField]:
    """All counters of records that have a column, in the model that has it."""
    for model in apps.get_models():
        if router.allow_migrate_model(using, model):
            for field in model._meta.local_concrete_fields:
                if isinstance(field, TotalField) and not issubclass(model, CounterColumns):
                    yield field


def _kinds(using: str) -> list[tuple[ContentType, str]]:
    waiting = SLOTS.rows(using).filter(slot__gte=0)
    found = waiting.values_list("record_type", "name")
    kinds = ContentType.objects.db_manager(using)
    return [(kinds.get_for_id(kind), name) for kind, name in found.distinct().order_by()]


class Stranger(NamedTuple):
    """Slots of a field or of a model that the project has no more, folded or not.

    ``has_model``: whether the model is there, and the field alone is gone.
    """

    kind: ContentType
    name: str
    rows: int
    amount: int
    has_model: bool


def strangers(using: str) -> Iterator[Stranger]:
    """The rest of fields and models that the project has no more. One question at most."""
    if not SLOTS.stands_in(using):
        return
    kinds = {kind.pk: kind for kind in ContentType.objects.using(using)}
    left = models.Q(record_type__in=[pk for pk, kind in kinds.items() if not kind.model_class()])
    for kind, name in _without_field(kinds.values()):
        left |= models.Q(record_type=kind.pk, name=name)
    slots = SLOTS.rows(using).filter(left)
    found = slots.values_list("record_type", "name").order_by("record_type", "name")
    for pk, name, rows, amount in found.annotate(models.Count("slot"), models.Sum("count")):
        yield Stranger(kinds[pk], name, rows, int(amount), bool(kinds[pk].model_class()))


def _without_field(kinds: Iterable[ContentType]) -> Iterator[tuple[ContentType, str]]:
    removed = removed_fields()
    for kind in kinds:
        model = kind.model_class()
        if model is not None:
            named = [name for *label, name in removed if label == [kind.app_label, kind.model]]
            yield from ((kind, name) for name in named if column_of(model, name) is None)
