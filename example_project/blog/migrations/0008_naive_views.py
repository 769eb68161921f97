from __future__ import annotations

from typing import ClassVar

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies: ClassVar[list[tuple[str, str]]] = [("blog", "0007_one_like_per_person")]

    operations = [
        migrations.AddField(
            model_name="post",
            name="naive_views",
            field=models.PositiveIntegerField(default=0, editable=False),
        ),
    ]
