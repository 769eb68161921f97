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
            name="CounterMember",
            fields=[
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
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "measure_id",
                        "key",
                        "period",
                        "start",
                        "tags",
                        "member",
                        blank=True,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("member", models.BigIntegerField(verbose_name="member")),
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
                "db_table": "django_counters_countermember",
                "verbose_name": "counter member",
                "verbose_name_plural": "counter members",
            },
        ),
        migrations.CreateModel(
            name="CounterUnique",
            fields=[
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
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "measure_id",
                        "key",
                        "period",
                        "start",
                        "tags",
                        blank=True,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("kind", models.CharField(max_length=1, verbose_name="kind")),
                ("body", models.BinaryField(verbose_name="body")),
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
                "db_table": "django_counters_counterunique",
                "verbose_name": "counter unique",
                "verbose_name_plural": "counter uniques",
                "indexes": [
                    models.Index(
                        fields=["measure", "period", "start"], name="counters_uniques_by_start"
                    )
                ],
            },
        ),
    ]
