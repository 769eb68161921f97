from __future__ import annotations

from typing import ClassVar

from django.db import migrations

import django_counters.fields


class Migration(migrations.Migration):
    dependencies: ClassVar[list[tuple[str, str]]] = [("blog", "0005_views_by_country")]

    operations = [
        # The column stays as it is: ranks have rows of their own.
        migrations.AlterField(
            model_name="post",
            name="views",
            field=django_counters.fields.CounterField(
                approve_above=100,
                default=0,
                keep={"hour": 35},
                per=["hour", "day"],
                strategy="cached",
                tags={"country": 20},
                timeout=1,
                top=["day", "week"],
            ),
        ),
    ]
