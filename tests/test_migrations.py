"""The migrations say what the models say, on every version of Django."""

from __future__ import annotations

from io import StringIO
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection
from django.db.migrations import (
    AddField,
    AlterField,
    AlterModelOptions,
    CreateModel,
    RunPython,
)
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.operations.base import Operation
from django.db.migrations.state import ProjectState

from django_counters.models import Counter

LABEL = "django_counters"


@pytest.mark.django_db
def test_no_migration_is_missing() -> None:
    call_command("makemigrations", check_changes=True, dry_run=True, stdout=StringIO())


@pytest.mark.django_db(transaction=True)
def test_any_migration_can_be_the_last_one_and_the_app_can_go_and_return() -> None:
    """Any of them is the last one if another app is migrated that needs only the first ones."""
    Counter.objects.increment("a")
    ours = [name for app, name in MigrationLoader(connection).disk_migrations if app == LABEL]
    try:
        for name in sorted(ours, reverse=True):
            call_command("migrate", LABEL, name, verbosity=0)
            call_command("migrate", "contenttypes", verbosity=0)
        call_command("migrate", LABEL, "zero", verbosity=0)
        assert Counter._meta.db_table not in connection.introspection.table_names()
        for name in sorted(ours):
            call_command("migrate", LABEL, name, verbosity=0)
        assert Counter.objects.increment("a") == 1
    finally:
        # Those of other apps that build on it have gone with it: other tests need their columns.
        call_command("migrate", verbosity=0)


@pytest.mark.django_db
def test_migrations_only_add() -> None:
    """A released version may run while the next one has migrated already."""
    state = ProjectState()
    graph = MigrationLoader(connection).graph
    for key in graph.forwards_plan(graph.leaf_nodes("django_counters")[0]):
        migration = graph.nodes[key]
        for operation in migration.operations:
            before = state.clone()
            operation.state_forwards(key[0], state)
            if key[0] == "django_counters":
                assert adds(operation, before, state), f"{key[1]}: {operation.describe()}"


def adds(operation: Operation, before: ProjectState, after: ProjectState) -> bool:
    """Whether code that knows nothing of an operation works after it as before."""
    if isinstance(operation, AddField):
        return bool(operation.field.null or operation.field.has_default())
    if isinstance(operation, AlterField):
        name = ("django_counters", operation.model_name_lower)
        old, new = (s.models[name].fields[operation.name] for s in (before, after))
        old.set_attributes_from_name(operation.name)
        new.set_attributes_from_name(operation.name)
        editor: Any = connection.schema_editor()
        return not editor._field_should_be_altered(old, new)
    return isinstance(operation, CreateModel | RunPython | AlterModelOptions)
