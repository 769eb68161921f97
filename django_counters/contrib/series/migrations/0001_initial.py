from __future__ import annotations

from typing import Any

import django.db.models.deletion
from django.db import migrations, models, router

import django_counters.tables.schema

# How full PostgreSQL makes the pages of tables whose rows are added to.
FILLFACTORS = {"CounterCell": 80, "CounterOccurrence": 80}


def leave_room_in_pages(apps: Any, schema_editor: Any) -> None:
    """Set how full PostgreSQL makes pages: new versions of rows need no new entries of indexes."""
    if schema_editor.connection.vendor != "postgresql":
        return
    for name, percent in FILLFACTORS.items():
        model = apps.get_model("django_counters_series", name)
        if router.allow_migrate_model(schema_editor.connection.alias, model):
            table = schema_editor.quote_name(model._meta.db_table)
            schema_editor.execute(f"ALTER TABLE {table} SET (fillfactor = {percent})")


def forget_periods(apps: Any, schema_editor: Any) -> None:
    """Forget since when periods are counted: without their cells they would read as zeros."""
    measures = apps.get_model("django_counters", "CounterMeasure")
    alias = schema_editor.connection.alias
    if router.allow_migrate_model(alias, measures):
        measures.objects.using(alias).update(periods={})


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        ("django_counters", "0001_initial"),
    ]

    operations = [
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
                    django_counters.tables.schema.KeyField(max_length=255, verbose_name="key"),
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
                    django_counters.tables.schema.KeyField(
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
                "db_table": "django_counters_countercell",
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
                    django_counters.tables.schema.KeyField(max_length=60, verbose_name="name"),
                ),
                (
                    "value",
                    django_counters.tables.schema.KeyField(max_length=60, verbose_name="value"),
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
                "db_table": "django_counters_countertag",
                "verbose_name": "counter tag",
                "verbose_name_plural": "counter tags",
            },
        ),
        migrations.CreateModel(
            name="CounterOccurrence",
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
                    django_counters.tables.schema.KeyField(max_length=255, verbose_name="key"),
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
                    django_counters.tables.schema.KeyField(
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
                "db_table": "django_counters_counteroccurrence",
                "verbose_name": "counter occurrence",
                "verbose_name_plural": "counter occurrences",
                "indexes": [
                    models.Index(
                        fields=["measure", "period", "start"], name="counters_occurrences_by_start"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="CounterSample",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "key",
                        "moment",
                        blank=True,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                (
                    "key",
                    django_counters.tables.schema.KeyField(max_length=200, verbose_name="key"),
                ),
                ("moment", models.DateTimeField(db_index=True, verbose_name="moment")),
                ("value", models.BigIntegerField(verbose_name="value")),
            ],
            options={
                "verbose_name": "counter sample",
                "verbose_name_plural": "counter samples",
                "db_table": "django_counters_countersample",
            },
        ),
        migrations.RunPython(leave_room_in_pages, forget_periods),
    ]
