"""The migrations say what the models say, on every version of Django."""

from __future__ import annotations

import subprocess
import sys
from io import StringIO
from pathlib import Path
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
from django.db.migrations.recorder import MigrationRecorder
from django.db.migrations.state import ProjectState

from django_counters.models import Counter, CounterDelta

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
        # Those of the apps in contrib go first, as they depend on it.
        assert [name for name in connection.introspection.table_names() if LABEL in name] == []
        applied = MigrationRecorder(connection).applied_migrations()
        assert [label for label, _ in applied if label.startswith(LABEL)] == []
        for name in sorted(ours):
            call_command("migrate", LABEL, name, verbosity=0)
        assert Counter.objects.increment("a") == 1
    finally:
        # Those of other apps that build on it have gone with it: other tests need their columns.
        call_command("migrate", verbosity=0)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("backwards", [False, True])
def test_it_can_be_shown_as_sql(backwards: bool) -> None:
    shown = call_command("sqlmigrate", LABEL, "0001", backwards=backwards, stdout=StringIO())
    assert connection.ops.quote_name(CounterDelta._meta.db_table) in shown
    if connection.vendor == "postgresql" and not backwards:
        assert "PARTITION BY RANGE (created_at)" in shown


class TestAppsThatAreRemoved:
    """Django reads the migrations of installed apps only."""

    MANAGE = """
import sys
from django.conf import settings
from django.core.management import execute_from_command_line

folder, extra, *command = sys.argv[1:]
settings.configure(
    INSTALLED_APPS=["django.contrib.auth", "django.contrib.contenttypes", "django_counters",
        *extra.split()],
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": f"{folder}/db"}},
)
execute_from_command_line(["manage.py", *command])
"""

    @pytest.mark.parametrize("name", ["holds", "limits", "regions"])
    def test_their_migrations_are_unapplied_first(self, name: str, tmp_path: Path) -> None:
        app, label = f"django_counters.contrib.{name}", f"{LABEL}_{name}"

        def manage(extra: str, *command: str) -> str:
            argv = [sys.executable, "-c", self.MANAGE, str(tmp_path), extra, *command]
            return subprocess.run(argv, capture_output=True, text=True, check=False).stderr

        assert manage(app, "migrate") == ""
        refused = manage("", "migrate", LABEL, "zero")
        assert f"{app!r} isn't installed" in refused
        assert f"manage.py migrate {label} zero" in refused
        # Nothing has been unapplied: the app can be added again.
        assert manage(app, "migrate") == ""
        assert manage(app, "migrate", label, "zero") == ""
        assert manage("", "migrate", LABEL, "zero") == ""
        assert manage(app, "migrate") == ""


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
