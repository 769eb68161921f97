from __future__ import annotations

from django.db import migrations, models

import django_counters.tables.schema


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        ("django_counters", "0001_initial"),
    ]

    operations = [
        migrations.CreateModel(
            name="CounterRegion",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "key",
                        "region",
                        "incarnation",
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
                (
                    "region",
                    django_counters.tables.schema.KeyField(max_length=60, verbose_name="region"),
                ),
                ("incarnation", models.IntegerField(verbose_name="incarnation")),
                ("value", models.BigIntegerField(verbose_name="value")),
                ("version", models.BigIntegerField(verbose_name="version")),
                (
                    "base",
                    models.BigIntegerField(
                        blank=True, default=None, null=True, verbose_name="base"
                    ),
                ),
            ],
            options={
                "db_table": "django_counters_counterregion",
                "verbose_name": "counter region",
                "verbose_name_plural": "counter regions",
                "indexes": [
                    models.Index(
                        fields=["region", "incarnation", "version"], name="counters_regions_since"
                    )
                ],
            },
        ),
    ]
