from __future__ import annotations

import django.db.models.deletion
from django.apps.registry import Apps
from django.db import migrations, models
from django.db.backends.base.schema import BaseDatabaseSchemaEditor

import django_counters.models.counter
from django_counters.stores.sql.dialects import DIALECTS


def leave_room_in_pages(apps: Apps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    """Room for new versions of a row in its own page keeps PostgreSQL's updates off the index."""
    if schema_editor.connection.vendor == "postgresql":
        for name in ("CounterShard", "SlottedCounter"):
            table = schema_editor.quote_name(apps.get_model("django_counters", name)._meta.db_table)
            schema_editor.execute(f"ALTER TABLE {table} SET (fillfactor = 60)")


def make_functions(_apps: Apps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    """For migrations that count; every later version is installed after ``migrate``."""
    DIALECTS[schema_editor.connection.vendor].install(schema_editor.connection.alias)


class Migration(migrations.Migration):
    dependencies = [
        ("contenttypes", "0002_remove_content_type_name"),
        ("django_counters", "0001_initial"),
    ]

    operations = [
        migrations.CreateModel(
            name="CounterShard",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "key",
                        "shard",
                        blank=True,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                (
                    "key",
                    django_counters.models.counter.KeyField(max_length=200, verbose_name="key"),
                ),
                ("shard", models.SmallIntegerField(verbose_name="shard")),
                ("value", models.BigIntegerField(default=0, verbose_name="value")),
            ],
            options={"verbose_name": "counter shard", "verbose_name_plural": "counter shards"},
        ),
        migrations.CreateModel(
            name="SlottedCounter",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "record_type_id",
                        "record_id",
                        "name",
                        "slot",
                        blank=True,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                (
                    "record_id",
                    django_counters.models.counter.KeyField(
                        max_length=255, verbose_name="record id"
                    ),
                ),
                (
                    "name",
                    django_counters.models.counter.KeyField(max_length=100, verbose_name="name"),
                ),
                ("slot", models.SmallIntegerField(verbose_name="slot")),
                ("count", models.BigIntegerField(default=0, verbose_name="count")),
                (
                    "record_type",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="contenttypes.contenttype",
                        verbose_name="record type",
                    ),
                ),
            ],
            options={
                "verbose_name": "slotted counter",
                "verbose_name_plural": "slotted counters",
                "indexes": [
                    models.Index(
                        condition=models.Q(("slot__gte", 0)),
                        fields=["record_type", "name", "record_id"],
                        name="counters_slots_that_wait",
                    )
                ],
            },
        ),
        migrations.RunPython(
            leave_room_in_pages, migrations.RunPython.noop, hints={"model_name": "countershard"}
        ),
        migrations.RunPython(
            make_functions, migrations.RunPython.noop, hints={"model_name": "countershard"}
        ),
    ]
