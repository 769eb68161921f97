"""Fields and models that have another name by now, or are gone, as migrations say.

The amount that waits under an older name is theirs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

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

from django_counters.tables.total import TotalField


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
