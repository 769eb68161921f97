from __future__ import annotations

from typing import ClassVar

from django.db import migrations, models

import django_counters.fields


class Migration(migrations.Migration):
    initial = True

    dependencies: ClassVar[list[tuple[str, str]]] = []

    operations = [
        migrations.CreateModel(
            name="Post",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("title", models.CharField(max_length=120)),
                ("slug", models.SlugField(unique=True)),
                ("body", models.TextField()),
                ("published_at", models.DateTimeField(auto_now_add=True)),
                ("views", django_counters.fields.CounterField(default=0)),
            ],
            options={
                "ordering": ("pk",),
            },
        ),
    ]
