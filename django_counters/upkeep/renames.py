"""Fields and models that have another name by now: what waits under the old one is theirs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

from django.db.migrations import RenameField, RenameModel, SeparateDatabaseAndState
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.operations.base import Operation


class _Rename(NamedTuple):
    """What a field of a model was called before; of a model itself where ``model`` is empty."""

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


# They are what they are for as long as the process runs.
@lru_cache(maxsize=1)
def _renames() -> Sequence[_Rename]:
    graph = MigrationLoader(None, ignore_no_migrations=True).graph
    plan = dict.fromkeys(key for leaf in graph.leaf_nodes() for key in graph.forwards_plan(leaf))
    return [
        rename
        for app, name in plan
        for operation in graph.nodes[app, name].operations
        for rename in _of(app.lower(), operation)
    ]


def _of(app: str, operation: Operation) -> Iterator[_Rename]:
    if isinstance(operation, SeparateDatabaseAndState):
        for one in operation.state_operations:
            yield from _of(app, one)
    elif isinstance(operation, RenameModel):
        yield _Rename(app, "", operation.old_name_lower, operation.new_name_lower)
    elif isinstance(operation, RenameField):
        yield _Rename(app, operation.model_name_lower, operation.old_name, operation.new_name)
