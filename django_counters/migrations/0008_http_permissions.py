from __future__ import annotations

from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [
        ("django_counters", "0007_limits"),
    ]

    operations = [
        migrations.AlterModelOptions(
            name="counter",
            options={
                "permissions": [
                    ("adjust_counter", "Can adjust a counter"),
                    ("increment_counter", "Can increment a counter over HTTP"),
                    ("decrement_counter", "Can decrement a counter over HTTP"),
                ],
                "verbose_name": "counter",
                "verbose_name_plural": "counters",
            },
        ),
    ]
