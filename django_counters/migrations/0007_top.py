from __future__ import annotations

import django.db.models.deletion
from django.apps.registry import Apps
from django.db import migrations, models
from django.db.backends.base.schema import BaseDatabaseSchemaEditor

import django_counters.tables.counter


def tune(_apps: Apps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    """Room for new versions of a row."""
    if schema_editor.connection.vendor == "postgresql":
        ranks = "django_counters_counterrank"
        schema_editor.execute(f"ALTER TABLE {ranks} SET (fillfactor = 80)")


class Migration(migrations.Migration):
    dependencies = [
        ("django_counters", "0006_actors"),
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
                    django_counters.tables.counter.KeyField(max_length=255, verbose_name="key"),
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
                "verbose_name": "counter rank",
                "verbose_name_plural": "counter ranks",
                "indexes": [
                    models.Index(
                        fields=["measure", "period", "start", "-value"], name="counters_top"
                    )
                ],
            },
        ),
        migrations.RunPython(tune, migrations.RunPython.noop, hints={"model_name": "counterrank"}),
    ]
