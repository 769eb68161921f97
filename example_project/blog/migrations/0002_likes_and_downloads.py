from __future__ import annotations

from typing import ClassVar

import django.db.models.deletion
from django.db import migrations, models

import django_counters.fields


class Migration(migrations.Migration):
    dependencies: ClassVar[list[tuple[str, str]]] = [("blog", "0001_initial")]

    operations = [
        migrations.AddField(
            model_name="post",
            name="likes",
            field=django_counters.fields.CounterField(default=0, strategy="slotted"),
        ),
        migrations.CreateModel(
            name="Download",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                (
                    "post",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="blog.post",
                    ),
                ),
            ],
        ),
    ]
