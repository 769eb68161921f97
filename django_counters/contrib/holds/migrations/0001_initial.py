from __future__ import annotations

from django.db import migrations, models

import django_counters.tables.schema


class Migration(migrations.Migration):
    initial = True

    dependencies = [
        ("django_counters", "0001_initial"),
    ]

    operations = [
        migrations.CreateModel(
            name="CounterHold",
            fields=[
                (
                    "token",
                    django_counters.tables.schema.KeyField(
                        max_length=255, primary_key=True, serialize=False, verbose_name="token"
                    ),
                ),
                (
                    "field",
                    models.CharField(blank=True, default="", max_length=255, verbose_name="field"),
                ),
                (
                    "key",
                    django_counters.tables.schema.KeyField(max_length=255, verbose_name="key"),
                ),
                ("quantity", models.BigIntegerField(verbose_name="quantity")),
                ("sold", models.BigIntegerField(default=0, verbose_name="sold")),
                (
                    "state",
                    models.SmallIntegerField(
                        choices=[(0, "held"), (1, "committed"), (2, "released"), (3, "expired")],
                        default=0,
                        verbose_name="state",
                    ),
                ),
                (
                    "note",
                    models.CharField(blank=True, default="", max_length=255, verbose_name="note"),
                ),
                (
                    "actor",
                    models.CharField(blank=True, default="", max_length=64, verbose_name="actor"),
                ),
                ("expires_at", models.DateTimeField(verbose_name="expires at")),
                ("created_at", models.DateTimeField(verbose_name="created at")),
            ],
            options={
                "verbose_name": "counter hold",
                "verbose_name_plural": "counter holds",
                "db_table": "django_counters_counterhold",
                "permissions": [("hold_counter", "Can hold a counter over HTTP")],
                "indexes": [
                    models.Index(
                        condition=models.Q(("state", 0)),
                        fields=["expires_at"],
                        name="counters_holds_due",
                    ),
                    models.Index(
                        condition=models.Q(("state", 0)),
                        fields=["field", "key"],
                        name="counters_holds_of",
                    ),
                    models.Index(
                        condition=models.Q(("state", 0), _negated=True),
                        fields=["expires_at"],
                        name="counters_holds_ended",
                    ),
                ],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            ("quantity__gt", 0),
                            models.Q(
                                models.Q(
                                    ("sold__gt", 0),
                                    ("sold__lte", models.F("quantity")),
                                    ("state", 1),
                                ),
                                models.Q(("sold", 0), ("state__in", (0, 2, 3))),
                                _connector="OR",
                            ),
                        ),
                        name="counters_hold_adds_up",
                    )
                ],
            },
        ),
    ]
