from __future__ import annotations

import django.db.models.deletion
from django.db import migrations, models

import django_counters.tables.schema


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        ("django_counters", "0001_initial"),
    ]

    operations = [
        migrations.CreateModel(
            name="CounterActor",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "measure_id",
                        "key",
                        "actor",
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
                    "actor",
                    django_counters.tables.schema.KeyField(max_length=64, verbose_name="actor"),
                ),
                ("created_at", models.DateTimeField(verbose_name="created at")),
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
                "verbose_name": "counter actor",
                "verbose_name_plural": "counter actors",
                "db_table": "django_counters_counteractor",
                "indexes": [
                    models.Index(
                        fields=["measure", "actor", "created_at"], name="counters_of_an_actor"
                    ),
                    models.Index(
                        fields=["measure", "key", "created_at"], name="counters_actors_by_time"
                    ),
                ],
            },
        ),
    ]
