from __future__ import annotations

from typing import Any

import django.db.models.deletion
from django.db import migrations, models, router

import django_counters.tables.schema


def leave_room_in_pages(apps: Any, schema_editor: Any) -> None:
    """Set how full PostgreSQL makes pages: new versions of rows need no new entries of indexes."""
    model = apps.get_model("django_counters_top", "CounterRank")
    alias = schema_editor.connection.alias
    if schema_editor.connection.vendor == "postgresql" and router.allow_migrate_model(alias, model):
        table = schema_editor.quote_name(model._meta.db_table)
        schema_editor.execute(f"ALTER TABLE {table} SET (fillfactor = 80)")


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        ("django_counters", "0001_initial"),
    ]

    operations = [
        migrations.CreateModel(
            name="CounterRank",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "measure_id",
                        "period",
                        "start",
                        "key",
                        blank=True,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
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
                    "key",
                    django_counters.tables.schema.KeyField(max_length=255, verbose_name="key"),
                ),
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
                "db_table": "django_counters_counterrank",
                "verbose_name": "counter rank",
                "verbose_name_plural": "counter ranks",
                "indexes": [
                    models.Index(
                        fields=["measure", "period", "start", "-value"], name="counters_top"
                    )
                ],
            },
        ),
        migrations.RunPython(leave_room_in_pages, migrations.RunPython.noop),
    ]
