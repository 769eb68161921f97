from __future__ import annotations

import django.db.models.deletion
from django.apps.registry import Apps
from django.db import migrations, models
from django.db.backends.base.schema import BaseDatabaseSchemaEditor

import django_counters.tables.counter


def tune(_apps: Apps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    """Leave room for new versions of a row in its page."""
    if schema_editor.connection.vendor == "postgresql":
        schema_editor.execute("ALTER TABLE django_counters_counteroccurrence SET (fillfactor = 80)")


class Migration(migrations.Migration):
    dependencies = [
        ("django_counters", "0010_positions"),
    ]

    operations = [
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
                "verbose_name": "counter occurrence",
                "verbose_name_plural": "counter occurrences",
                "indexes": [
                    models.Index(
                        fields=["measure", "period", "start"], name="counters_occurrences_by_start"
                    )
                ],
            },
        ),
        migrations.RunPython(
            tune, migrations.RunPython.noop, hints={"model_name": "counteroccurrence"}
        ),
    ]
