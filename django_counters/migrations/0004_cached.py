from __future__ import annotations

from django.db import migrations, models

import django_counters.models.counter


class Migration(migrations.Migration):
    dependencies = [
        ("django_counters", "0003_ledger"),
    ]

    operations = [
        migrations.CreateModel(
            name="CounterBatch",
            fields=[
                (
                    "generation",
                    models.UUIDField(primary_key=True, serialize=False, verbose_name="generation"),
                ),
                ("slot", models.SmallIntegerField(verbose_name="slot")),
                ("source", models.CharField(max_length=255, verbose_name="source")),
                ("applied_at", models.DateTimeField(db_index=True, verbose_name="applied at")),
                ("counters", models.IntegerField(verbose_name="counters")),
                ("total", models.DecimalField(decimal_places=0, max_digits=40, verbose_name="sum")),
            ],
            options={
                "verbose_name": "counter batch",
                "verbose_name_plural": "counter batches",
            },
        ),
        migrations.CreateModel(
            name="CounterSource",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "source",
                        "slot",
                        blank=True,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                (
                    "source",
                    django_counters.models.counter.KeyField(max_length=255, verbose_name="source"),
                ),
                ("slot", models.SmallIntegerField(verbose_name="slot")),
                (
                    "seen",
                    models.CharField(blank=True, max_length=32, verbose_name="generation seen"),
                ),
                ("timeline", models.CharField(blank=True, max_length=40, verbose_name="timeline")),
                ("seen_at", models.DateTimeField(verbose_name="seen at")),
            ],
            options={
                "verbose_name": "counter source",
                "verbose_name_plural": "counter sources",
            },
        ),
        migrations.AlterField(
            model_name="counterincident",
            name="kind",
            field=models.CharField(
                choices=[
                    ("drift", "a value differs from its entries"),
                    ("fenced", "the ledger was restored elsewhere"),
                    ("overflow", "a total would not fit"),
                    ("lost", "increments were lost by Redis"),
                    ("history", "Redis went on from an older state"),
                    ("quarantined", "an amount could not be landed"),
                    ("unknown", "the outcome of an increment is not known"),
                ],
                max_length=20,
                verbose_name="kind",
            ),
        ),
    ]
