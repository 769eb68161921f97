from __future__ import annotations

import django.db.models.deletion
from django.apps.registry import Apps
from django.db import migrations, models
from django.db.backends.base.schema import BaseDatabaseSchemaEditor

import django_counters.tables.counter


def tune(_apps: Apps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    """Leave room for new versions of a row in its page."""
    if schema_editor.connection.vendor == "postgresql":
        schema_editor.execute("ALTER TABLE django_counters_countercell SET (fillfactor = 80)")


class Migration(migrations.Migration):
    dependencies = [
        ("django_counters", "0003_adjustments"),
    ]

    operations = [
        migrations.CreateModel(
            name="CounterMeasure",
            fields=[
                ("id", models.AutoField(primary_key=True, serialize=False)),
                (
                    "name",
                    django_counters.tables.counter.KeyField(
                        max_length=255, unique=True, verbose_name="name"
                    ),
                ),
                ("zone", models.CharField(max_length=64, verbose_name="time zone")),
                ("tags", models.JSONField(default=list, verbose_name="tags")),
                ("periods", models.JSONField(default=dict, verbose_name="periods")),
                ("made_at", models.DateTimeField(auto_now_add=True, verbose_name="made at")),
            ],
            options={
                "verbose_name": "counter measure",
                "verbose_name_plural": "counter measures",
            },
        ),
        migrations.CreateModel(
            name="CounterCell",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "measure_id",
                        "key",
                        "period",
                        "start",
                        "tags",
                        "shard",
                        blank=True,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                (
                    "key",
                    django_counters.tables.counter.KeyField(max_length=255, verbose_name="key"),
                ),
                (
                    "period",
                    models.SmallIntegerField(
                        choices=[(1, "minute"), (2, "hour"), (3, "day"), (4, "week"), (5, "month")],
                        verbose_name="period",
                    ),
                ),
                ("start", models.DateTimeField(verbose_name="start")),
                (
                    "tags",
                    django_counters.tables.counter.KeyField(
                        blank=True, default="", max_length=200, verbose_name="tags"
                    ),
                ),
                ("shard", models.SmallIntegerField(default=0, verbose_name="shard")),
                ("value", models.BigIntegerField(verbose_name="value")),
                (
                    "measure",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="django_counters.countermeasure",
                        verbose_name="measure",
                    ),
                ),
            ],
            options={
                "verbose_name": "counter cell",
                "verbose_name_plural": "counter cells",
                "indexes": [
                    models.Index(
                        fields=["measure", "period", "start"], name="counters_cells_by_start"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="CounterTag",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "measure_id",
                        "name",
                        "value",
                        blank=True,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                (
                    "name",
                    django_counters.tables.counter.KeyField(max_length=60, verbose_name="name"),
                ),
                (
                    "value",
                    django_counters.tables.counter.KeyField(max_length=60, verbose_name="value"),
                ),
                (
                    "measure",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="django_counters.countermeasure",
                        verbose_name="measure",
                    ),
                ),
            ],
            options={
                "verbose_name": "counter tag",
                "verbose_name_plural": "counter tags",
            },
        ),
        migrations.RunPython(tune, migrations.RunPython.noop, hints={"model_name": "countercell"}),
    ]
