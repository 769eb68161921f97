from __future__ import annotations

from typing import ClassVar

from django.db import migrations

import django_counters.fields


class Migration(migrations.Migration):
    dependencies: ClassVar[list[tuple[str, str]]] = [("shop", "0002_number_of_an_order")]

    operations = [
        # The column stays as it is: the database is not asked to do anything.
        migrations.AlterField(
            model_name="product",
            name="stock",
            field=django_counters.fields.CounterField(approve_above=100, default=0, floor=0),
        ),
    ]
