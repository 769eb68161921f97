from __future__ import annotations

from typing import ClassVar

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies: ClassVar[list[tuple[str, str]]] = [
        ("django_counters", "0009_what_a_restart_is_called"),
    ]

    operations = [
        # A word that people read: the database is not asked to do anything.
        migrations.AlterField(
            model_name="counterincident",
            name="kind",
            field=models.CharField(
                choices=[
                    ("drift", "a value differs from its entries"),
                    ("fenced", "the ledger was restored elsewhere"),
                    ("overflow", "a total would not fit"),
                    ("lost", "increments were lost by Redis"),
                    ("history", "Redis was started again, or another one took over"),
                    ("quarantined", "an amount could not be landed"),
                    ("conflict", "one token stood for several changes"),
                    ("unknown", "the outcome of an increment is not known"),
                    ("audit", "an adjustment was changed or is missing"),
                ],
                max_length=20,
                verbose_name="kind",
            ),
        ),
    ]
