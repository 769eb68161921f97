from __future__ import annotations

from typing import ClassVar

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies: ClassVar[list[tuple[str, str]]] = [("shop", "0001_initial")]

    operations = [
        migrations.AddField(
            model_name="order",
            name="number",
            field=models.UUIDField(editable=False, null=True, unique=True),
        ),
    ]
