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
    ]
