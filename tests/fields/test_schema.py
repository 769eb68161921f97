"""Checks of the field, its migrations, and the adoption of a column that is there already."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from django.db import connection, models
from django.db.migrations import AddField, AlterField, CreateModel
from django.db.migrations.operations.base import Operation
from django.db.migrations.state import ProjectState
from django.test.utils import isolate_apps

from django_counters import CachedCounterField, CounterField, IntegerCounterField
from django_counters.models import Counter


def check_ids(field: type[CounterField], **options: Any) -> list[str]:
    with isolate_apps("tests.testapp"):

        class Sample(models.Model):
            hits = field(**options)

            class Meta:
                app_label = "testapp"

        return [message.id or "" for message in Sample.check() if "counters" in (message.id or "")]


@pytest.mark.parametrize(
    ("options", "ids"),
    [
        ({}, []),
        ({"floor": 0, "ceiling": 10}, []),
        ({"strategy": "exakt"}, ["counters.E010"]),
        ({"strategy": "sharded"}, ["counters.E010"]),
        ({"strategy": "slotted"}, []),
        ({"strategy": "slotted", "slots": 16}, []),
        ({"strategy": "slotted", "slots": 0}, ["counters.E017"]),
        ({"strategy": "slotted", "slots": "some"}, ["counters.E017"]),
        ({"strategy": "slotted", "floor": 0}, []),
        ({"strategy": "slotted", "ceiling": 9}, ["counters.E016"]),
        ({"floor": "0"}, ["counters.E011"]),
        ({"floor": 5, "ceiling": 1, "default": 0}, ["counters.E011"]),
        ({"null": True}, ["counters.E012"]),
        ({"primary_key": True}, ["counters.E013"]),
        ({"db_index": True}, ["counters.W010"]),
        ({"default": -1, "floor": 0}, ["counters.E015"]),
        ({"returns": "nothing"}, ["counters.E020"]),
    ],
)
def test_declarations_are_checked(options: dict[str, Any], ids: list[str]) -> None:
    assert check_ids(CounterField, **options) == ids


@pytest.mark.parametrize(
    ("options", "ids"),
    [
        ({"cache": "redis://localhost/1", "on_redis_down": "raise"}, []),
        ({"floor": 0}, ["counters.E016"]),
        ({"ceiling": 10}, ["counters.E016"]),
        ({"on_redis_down": "ledger"}, ["counters.E020"]),
        ({"on_redis_down": None}, ["counters.E020"]),
        ({"returns": "nothing"}, []),
        ({"returns": None}, ["counters.E020"]),
        ({"null": True}, ["counters.E012"]),
    ],
)
def test_cached_fields_are_checked(options: dict[str, Any], ids: list[str]) -> None:
    assert check_ids(CachedCounterField, **options) == ids


def test_a_composite_primary_key_is_refused() -> None:
    with isolate_apps("tests.testapp"):

        class Cell(models.Model):
            pk = models.CompositePrimaryKey("x", "y")
            x = models.IntegerField()
            y = models.IntegerField()
            hits = CounterField()

            class Meta:
                app_label = "testapp"

        assert "counters.E014" in [message.id for message in Cell.check()]


@pytest.mark.parametrize(
    ("key", "ids"),
    [
        (models.DateTimeField(primary_key=True), ["counters.E018"]),
        (models.DecimalField(primary_key=True, max_digits=9, decimal_places=2), ["counters.E018"]),
        (models.OneToOneField("Other", models.CASCADE, primary_key=True), ["counters.E018"]),
        (models.PositiveSmallIntegerField(primary_key=True), []),
        (models.UUIDField(primary_key=True), []),
        (models.SlugField(primary_key=True), []),
    ],
)
@pytest.mark.parametrize("strategy", ["slotted", "cached", "exact"])
def test_what_is_counted_elsewhere_needs_a_key_that_is_an_integer_a_uuid_or_a_text(
    key: models.Field[Any, Any], ids: list[str], strategy: str
) -> None:
    with isolate_apps("tests.testapp"):

        class Other(models.Model):
            at = models.DateTimeField(primary_key=True)

            class Meta:
                app_label = "testapp"

        class Sample(models.Model):
            chosen = key.clone()
            hits = CounterField(strategy=strategy)

            class Meta:
                app_label = "testapp"

        found = [message.id or "" for message in Sample.check()]
    expected = [] if strategy == "exact" else ids
    assert [one for one in found if "counters" in one] == expected


def test_a_cached_field_is_what_was_deconstructed() -> None:
    field = CachedCounterField(cache="b", on_redis_down="raise", db_column="x")
    _, path, args, options = field.deconstruct()
    clone = CachedCounterField(*args, **options)
    assert path == "django_counters.fields.CachedCounterField"
    assert (clone.options["cache"], clone.options["on_redis_down"]) == ("b", "raise")
    assert clone.strategy == "cached"
    assert clone.deconstruct() == field.deconstruct()
    # Another cache changes no column.
    assert {"cache", "on_redis_down"} <= set(field.non_db_attrs)
    same = CounterField(strategy="cached")
    assert (same.recipe, same.deconstruct()[2:]) == (
        CachedCounterField().recipe,
        ([], {"default": 0, "strategy": "cached"}),
    )


COLUMNS = [
    (models.BigIntegerField(), CounterField()),
    (models.IntegerField(default=0), IntegerCounterField()),
    (models.PositiveIntegerField(default=0), IntegerCounterField()),
]


def storage_of(table: str) -> Any:
    """PostgreSQL gives a table that it rewrites another file."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_relation_filenode(%s)", [table])
        return cursor.fetchone()


def apply(state: ProjectState, operation: Operation) -> ProjectState:
    after = state.clone()
    operation.state_forwards("testapp", after)
    with connection.schema_editor() as editor:
        operation.database_forwards("testapp", editor, state, after)
    return after


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(("before", "after"), COLUMNS)
def test_adopting_a_column_keeps_the_counts(
    before: models.Field[Any, Any], after: CounterField
) -> None:
    fields = [("id", models.BigAutoField(primary_key=True)), ("hits", before.clone())]
    state = apply(ProjectState(), CreateModel("Adopted", fields))
    try:
        old = state.apps.get_model("testapp", "Adopted").objects.create(hits=41)
        if connection.vendor == "postgresql":
            written = storage_of("testapp_adopted")
        state = apply(state, AlterField("Adopted", "hits", after.clone()))
        if connection.vendor == "postgresql":
            assert storage_of("testapp_adopted") == written
        new = state.apps.get_model("testapp", "Adopted").objects.get(pk=old.pk)
        assert new.hits.increment() == 42
    finally:
        with connection.cursor() as cursor:
            cursor.execute("DROP TABLE testapp_adopted")


@pytest.mark.postgresql
@pytest.mark.django_db(transaction=True)
def test_adopting_a_bigint_needs_no_statement_at_all() -> None:
    fields: list[tuple[str, models.Field[Any, Any]]] = [
        ("id", models.BigAutoField(primary_key=True)),
        ("hits", models.BigIntegerField()),
    ]
    state = ProjectState()
    CreateModel("Adopted", fields).state_forwards("testapp", state)
    after = state.clone()
    operation = AlterField("Adopted", "hits", CounterField())
    operation.state_forwards("testapp", after)
    with connection.schema_editor(collect_sql=True) as editor:
        operation.database_forwards("testapp", editor, state, after)
    assert editor.collected_sql == []


@pytest.mark.django_db(transaction=True)
def test_a_counter_can_be_added_to_a_table_with_rows() -> None:
    state = apply(
        ProjectState(), CreateModel("Grown", [("id", models.BigAutoField(primary_key=True))])
    )
    try:
        row = state.apps.get_model("testapp", "Grown").objects.create()
        state = apply(state, AddField("Grown", "hits", CounterField()))
        assert state.apps.get_model("testapp", "Grown").objects.get(pk=row.pk).hits.increment() == 1
    finally:
        with connection.cursor() as cursor:
            cursor.execute("DROP TABLE testapp_grown")


@pytest.mark.postgresql
@pytest.mark.django_db
def test_the_table_of_counters_has_one_index_and_room_for_updates() -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT reloptions, (SELECT count(*) FROM pg_index WHERE indrelid = attrelid), collname"
            " FROM pg_class JOIN pg_attribute ON attrelid = pg_class.oid"
            " JOIN pg_collation ON attcollation = pg_collation.oid"
            " WHERE pg_class.oid = %s::regclass AND attname = 'key'",
            [Counter._meta.db_table],
        )
        assert cursor.fetchall() == [(["fillfactor=60"], 1, "C")]


@pytest.mark.skipif(not hasattr(models, "DB_CASCADE"), reason="DB_CASCADE needs Django 6.1")
@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({}, False),
        ({"floor": 0}, True),
        ({"strategy": "slotted"}, True),
        ({"strategy": "cached"}, True),
        ({"per": ["day"]}, True),
        ({"once": True}, True),
    ],
)
def test_a_cascade_of_the_database_is_told_of(options: dict[str, Any], told: bool) -> None:
    for cascade in ("DB_CASCADE", "CASCADE"):
        with isolate_apps("tests.testapp"):

            class Owner(models.Model):
                class Meta:
                    app_label = "testapp"

            class Owned(models.Model):
                owner = models.ForeignKey(Owner, getattr(models, cascade))
                hits = CounterField(**options)

                class Meta:
                    app_label = "testapp"

            found = "counters.W024" in [message.id for message in Owned.check()]
        assert found is (told and cascade == "DB_CASCADE")


def test_a_field_without_the_app_names_the_line_to_add(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text("from django_counters import CounterField\n")
    setup = (
        "import django; from django.conf import settings; settings.configure("
        "INSTALLED_APPS=['django.contrib.contenttypes']); django.setup(); import shop"
    )
    path = os.pathsep.join([str(tmp_path), str(Path.cwd())])
    environment = {**os.environ, "PYTHONPATH": path}
    run = subprocess.run(
        [sys.executable, "-c", setup], env=environment, capture_output=True, text=True, check=False
    )
    told = 'ImproperlyConfigured: Counters need "django_counters" in INSTALLED_APPS. Add it.'
    assert told in run.stderr
