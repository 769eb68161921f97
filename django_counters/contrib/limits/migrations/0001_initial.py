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
            name="CounterLimit",
            fields=[
                (
                    "digest",
                    django_counters.tables.schema.DigestField(
                        primary_key=True, serialize=False, verbose_name="digest"
                    ),
                ),
                ("arrival", models.BigIntegerField(verbose_name="full again at")),
                ("moments", models.JSONField(null=True, verbose_name="moments")),
            ],
            options={
                "verbose_name": "counter limit",
                "verbose_name_plural": "counter limits",
                "db_table": "django_counters_counterlimit",
            },
        ),
    ]
