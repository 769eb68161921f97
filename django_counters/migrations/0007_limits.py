from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("django_counters", "0006_history"),
    ]

    operations = [
        migrations.CreateModel(
            name="CounterLimit",
            fields=[
                (
                    "digest",
                    models.BinaryField(primary_key=True, serialize=False, verbose_name="digest"),
                ),
                ("arrival", models.BigIntegerField(verbose_name="full again at")),
            ],
            options={
                "verbose_name": "counter limit",
                "verbose_name_plural": "counter limits",
            },
        ),
    ]
