"""Where increments wait for their rollup, also under former names of fields and models."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple

from django.apps import apps
from django.contrib.contenttypes.models import ContentType
from django.db import models, router
from django.db.migrations import (
    AddField,
    AlterField,
    CreateModel,
    RemoveField,
    RenameField,
    RenameModel,
    SeparateDatabaseAndState,
)
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.operations.base import Operation

from django_counters.registry import registry
from django_counters.stores.sql.folding import Folded, SqlFolding
from django_counters.stores.sql.tables import NAMED, slots
from django_counters.tables.core import COUNTERS, SLOTS, CounterColumns
from django_counters.tables.total import TotalField
from django_counters.write.records import column_of, place_of

# Former names of fields and models, as migrations say: the amount under them is theirs.


class _Rename(NamedTuple):
    """The former name of a field of a model; of a model itself where ``model`` is empty."""

    app: str
    model: str
    old: str
    new: str


def present_name(label: str) -> str:
    """What ``app.Model.field`` is called now, as the project's migrations say.

    App and model are in small letters. Ask for a field only that does not exist: another one may
    have got its name meanwhile.
    """
    app, model, field = label.split(".", 2)
    app, model = app.lower(), model.lower()
    model = _now(app, model)
    for step in _renames():
        # The migration has the name that the model had then.
        if step.model and (step.app, _now(app, step.model)) == (app, model):
            field = step.new if step.old == field else field
    return f"{app}.{model}.{field}"


def _now(app: str, name: str) -> str:
    for step in _renames():
        if step[:3] == (app, "", name):
            name = step.new
    return name


def removed_fields() -> set[tuple[str, str, str]]:
    """Counter fields that were removed, and perhaps came back: app, present model, name."""
    counters, removed = set(), set()
    for app, step in _operations():
        for model, name in _counters_of(step):
            counters.add((app, _now(app, model), name))
        if isinstance(step, RenameField):
            model = _now(app, step.model_name_lower)
            if (app, model, step.old_name) in counters:
                counters.add((app, model, step.new_name))
        elif isinstance(step, RemoveField):
            removed.add((app, _now(app, step.model_name_lower), step.name))
    return counters & removed


def _counters_of(step: Operation) -> Iterator[tuple[str, str]]:
    """The counter fields that a migration makes, with their models."""
    if isinstance(step, CreateModel):
        for name, field in step.fields:
            if isinstance(field, TotalField):
                yield step.name_lower, name
    elif isinstance(step, AddField | AlterField) and isinstance(step.field, TotalField):
        yield step.model_name_lower, step.name


# They are what they are for as long as the process runs.
@lru_cache(maxsize=1)
def _operations() -> Sequence[tuple[str, Operation]]:
    graph = MigrationLoader(None, ignore_no_migrations=True).graph
    plan = dict.fromkeys(key for leaf in graph.leaf_nodes() for key in graph.forwards_plan(leaf))
    return [
        (app.lower(), step)
        for app, name in plan
        for operation in graph.nodes[app, name].operations
        for step in _steps(operation)
    ]


def _steps(operation: Operation) -> Iterator[Operation]:
    if isinstance(operation, SeparateDatabaseAndState):
        for one in operation.state_operations:
            yield from _steps(one)
    else:
        yield operation


@lru_cache(maxsize=1)
def _renames() -> Sequence[_Rename]:
    return [rename for app, step in _operations() for rename in _of(app, step)]


def _of(app: str, step: Operation) -> Iterator[_Rename]:
    if isinstance(step, RenameModel):
        yield _Rename(app, "", step.old_name_lower, step.new_name_lower)
    elif isinstance(step, RenameField):
        yield _Rename(app, step.model_name_lower, step.old_name, step.new_name)


# Places of increments in one database.


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


def caches(using: str) -> dict[str, list[str]]:
    """Return each cache that a namespace or field declares, and who declares it."""
    found: dict[str, list[str]] = {}
    for namespace, policy in registry.policies().items():
        if policy.recipe.can.outside:
            found.setdefault(policy.recipe.cache, []).append(f"COUNTERS[{namespace!r}]")
    for field in columns(using):
        recipe = field.declared().recipe
        if recipe.can.outside:
            found.setdefault(recipe.cache, []).append(f"{field.model._meta.label}.{field.name}")
    return dict(sorted(found.items()))


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
