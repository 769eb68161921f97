from __future__ import annotations

from typing import ClassVar

from django.db import migrations, models

import django_counters.fields


class Migration(migrations.Migration):
    dependencies: ClassVar[list[tuple[str, str]]] = [("shop", "0003_two_people")]

    operations = [
        migrations.CreateModel(
            name="HotItem",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("stock", django_counters.fields.CounterField(default=0, floor=0)),
                ("naive_stock", models.PositiveIntegerField()),
            ],
        ),
    ]
