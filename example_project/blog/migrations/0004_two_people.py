from __future__ import annotations

from typing import ClassVar

from django.db import migrations

import django_counters.fields


class Migration(migrations.Migration):
    dependencies: ClassVar[list[tuple[str, str]]] = [("blog", "0003_cached_views")]

    operations = [
        # The columns stay as they are: the database is not asked to do anything.
        migrations.AlterField(
            model_name="post",
            name="views",
            field=django_counters.fields.CounterField(
                approve_above=100, default=0, strategy="cached", timeout=1
            ),
        ),
        migrations.AlterField(
            model_name="post",
            name="likes",
            field=django_counters.fields.CounterField(
                approve_above=100, default=0, strategy="slotted"
            ),
        ),
    ]
