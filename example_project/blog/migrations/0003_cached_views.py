from __future__ import annotations

from typing import ClassVar

from django.db import migrations

import django_counters.fields


class Migration(migrations.Migration):
    dependencies: ClassVar[list[tuple[str, str]]] = [("blog", "0002_likes_and_downloads")]

    operations = [
        # The column stays as it is: the database is not asked to do anything.
        migrations.AlterField(
            model_name="post",
            name="views",
            field=django_counters.fields.CounterField(default=0, strategy="cached", timeout=1),
        ),
    ]
