from __future__ import annotations

import django.db.models.deletion
from django.apps.registry import Apps
from django.db import migrations, models
from django.db.backends.base.schema import BaseDatabaseSchemaEditor

import django_counters.tables.counter
import django_counters.tables.digest
import django_counters.tables.total


def leave_room_in_pages(apps: Apps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    """Room for new versions of a row in its own page keeps PostgreSQL's updates off the index."""
    if schema_editor.connection.vendor == "postgresql":
        for name in ("Counter", "CounterShard", "SlottedCounter"):
            table = schema_editor.quote_name(apps.get_model("django_counters", name)._meta.db_table)
            schema_editor.execute(f"ALTER TABLE {table} SET (fillfactor = 60)")


class Migration(migrations.Migration):
    initial = True

    dependencies = [("contenttypes", "0002_remove_content_type_name")]

    operations = [
        migrations.CreateModel(
            name="Counter",
            fields=[
                (
                    "key",
                    django_counters.tables.counter.KeyField(
                        max_length=200, primary_key=True, serialize=False, verbose_name="key"
                    ),
                ),
                (
                    "value",
                    django_counters.tables.total.TotalField(default=0, verbose_name="value"),
                ),
                ("updated_at", models.DateTimeField(auto_now=True, verbose_name="updated at")),
                (
                    "outside",
                    django_counters.tables.total.WideTotalField(  # type: ignore[misc]
                        blank=True,
                        default=None,
                        editable=False,
                        null=True,
                        verbose_name="outside the ledger",
                    ),
                ),
            ],
            options={
                "verbose_name": "counter",
                "verbose_name_plural": "counters",
                "permissions": [
                    ("adjust_counter", "Can adjust a counter"),
                    ("increment_counter", "Can increment a counter over HTTP"),
                    ("decrement_counter", "Can decrement a counter over HTTP"),
                ],
            },
        ),
        migrations.CreateModel(
            name="CounterShard",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "key",
                        "shard",
                        blank=True,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                (
                    "key",
                    django_counters.tables.counter.KeyField(max_length=200, verbose_name="key"),
                ),
                ("shard", models.SmallIntegerField(verbose_name="shard")),
                ("value", models.BigIntegerField(default=0, verbose_name="value")),
            ],
            options={"verbose_name": "counter shard", "verbose_name_plural": "counter shards"},
        ),
        migrations.CreateModel(
            name="SlottedCounter",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "record_type_id",
                        "record_id",
                        "name",
                        "slot",
                        blank=True,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                (
                    "record_id",
                    django_counters.tables.counter.KeyField(
                        max_length=255, verbose_name="record id"
                    ),
                ),
                (
                    "name",
                    django_counters.tables.counter.KeyField(max_length=100, verbose_name="name"),
                ),
                ("slot", models.SmallIntegerField(verbose_name="slot")),
                ("count", models.BigIntegerField(default=0, verbose_name="count")),
                (
                    "record_type",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="+",
                        to="contenttypes.contenttype",
                        verbose_name="record type",
                    ),
                ),
            ],
            options={
                "verbose_name": "slotted counter",
                "verbose_name_plural": "slotted counters",
                "indexes": [
                    models.Index(
                        condition=models.Q(("slot__gte", 0)),
                        fields=["record_type", "name", "record_id"],
                        name="counters_slots_that_wait",
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="CounterToken",
            fields=[
                (
                    "digest",
                    django_counters.tables.digest.DigestField(
                        primary_key=True, serialize=False, verbose_name="digest"
                    ),
                ),
                ("fingerprint", models.BinaryField(verbose_name="fingerprint of the call")),
                ("result", models.TextField(blank=True, verbose_name="result")),
                ("created_at", models.DateTimeField(db_index=True, verbose_name="created at")),
            ],
            options={
                "verbose_name": "counter token",
                "verbose_name_plural": "counter tokens",
            },
        ),
        migrations.CreateModel(
            name="CounterBatch",
            fields=[
                (
                    "generation",
                    models.UUIDField(primary_key=True, serialize=False, verbose_name="generation"),
                ),
                ("slot", models.SmallIntegerField(verbose_name="slot")),
                ("source", models.CharField(max_length=255, verbose_name="source")),
                ("applied_at", models.DateTimeField(db_index=True, verbose_name="applied at")),
                ("counters", models.IntegerField(verbose_name="counters")),
                ("total", models.DecimalField(decimal_places=0, max_digits=40, verbose_name="sum")),
            ],
            options={
                "verbose_name": "counter batch",
                "verbose_name_plural": "counter batches",
            },
        ),
        migrations.CreateModel(
            name="CounterSource",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "source",
                        "slot",
                        blank=True,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                (
                    "source",
                    django_counters.tables.counter.KeyField(max_length=255, verbose_name="source"),
                ),
                ("slot", models.SmallIntegerField(verbose_name="slot")),
                (
                    "seen",
                    models.CharField(blank=True, max_length=32, verbose_name="generation seen"),
                ),
                ("timeline", models.CharField(blank=True, max_length=40, verbose_name="timeline")),
                ("seen_at", models.DateTimeField(verbose_name="seen at")),
            ],
            options={
                "verbose_name": "counter source",
                "verbose_name_plural": "counter sources",
            },
        ),
        migrations.CreateModel(
            name="CounterSample",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "key",
                        "moment",
                        blank=True,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                (
                    "key",
                    django_counters.tables.counter.KeyField(max_length=200, verbose_name="key"),
                ),
                ("moment", models.DateTimeField(db_index=True, verbose_name="moment")),
                ("value", models.BigIntegerField(verbose_name="value")),
            ],
            options={
                "verbose_name": "counter sample",
                "verbose_name_plural": "counter samples",
            },
        ),
        migrations.CreateModel(
            name="CounterIncident",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "kind",
                    models.CharField(
                        choices=[
                            ("drift", "a value differs from its entries"),
                            ("fenced", "the ledger was restored elsewhere"),
                            ("overflow", "a total would not fit"),
                            ("lost", "increments were lost by Redis"),
                            ("history", "Redis was started again, or another one took over"),
                            ("quarantined", "an amount could not be landed"),
                            ("conflict", "one token stood for several changes"),
                            ("unknown", "the outcome of an increment is not known"),
                            ("audit", "an adjustment was changed or is missing"),
                        ],
                        max_length=20,
                        verbose_name="kind",
                    ),
                ),
                ("subject", models.CharField(max_length=255, verbose_name="subject")),
                ("detail", models.JSONField(default=dict, verbose_name="detail")),
                (
                    "found_at",
                    models.DateTimeField(auto_now_add=True, db_index=True, verbose_name="found at"),
                ),
            ],
            options={
                "verbose_name": "counter incident",
                "verbose_name_plural": "counter incidents",
            },
        ),
        migrations.RunPython(
            leave_room_in_pages, migrations.RunPython.noop, hints={"model_name": "counter"}
        ),
    ]
