from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("django_counters", "0007_top"),
    ]

    operations = [
        migrations.AddField(
            model_name="counterlimit",
            name="moments",
            field=models.JSONField(null=True, verbose_name="moments"),
        ),
    ]
