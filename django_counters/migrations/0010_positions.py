from __future__ import annotations

from django.db import migrations, models

import django_counters.tables.counter


class Migration(migrations.Migration):
    dependencies = [
        ("django_counters", "0007_top"),
    ]

    operations = [
        migrations.CreateModel(
            name="CounterPosition",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "source",
                        "part",
                        blank=True,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                (
                    "source",
                    django_counters.tables.counter.KeyField(max_length=255, verbose_name="source"),
                ),
                (
                    "part",
                    django_counters.tables.counter.KeyField(max_length=255, verbose_name="part"),
                ),
                (
                    "position",
                    models.CharField(blank=True, max_length=255, verbose_name="position"),
                ),
                (
                    "timeline",
                    models.CharField(blank=True, max_length=255, verbose_name="timeline"),
                ),
                ("moved_at", models.DateTimeField(verbose_name="moved at")),
            ],
            options={
                "verbose_name": "counter position",
                "verbose_name_plural": "counter positions",
            },
        ),
    ]
