from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.db import migrations, models

import django_counters.tables.counter
import django_counters.tables.horizon
from django_counters.stores.sql.dialects import DIALECTS
from django_counters.stores.sql.making import ledger_table
from django_counters.upkeep.partitions import make_ahead


class CreateLedger(migrations.CreateModel):
    """A table in partitions, where a database has them, and what Django cannot say of it."""

    def database_forwards(
        self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any
    ) -> None:
        connection = schema_editor.connection
        model = to_state.apps.get_model(app_label, self.name)
        if not self.allow_migrate_model(connection.alias, model):
            return
        with ledger_table(schema_editor):
            super().database_forwards(app_label, schema_editor, from_state, to_state)


def make_functions(_apps: Any, schema_editor: Any) -> None:
    """For migrations that count; every later version is installed after ``migrate``."""
    DIALECTS[schema_editor.connection.vendor].install(schema_editor.connection.alias)
    make_ahead(schema_editor.connection.alias)


class Migration(migrations.Migration):
    dependencies = [("django_counters", "0001_initial")]

    operations = [
        migrations.CreateModel(
            name="CounterArchive",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "partition",
                        "key",
                        blank=True,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                (
                    "partition",
                    models.CharField(blank=True, max_length=63, verbose_name="partition"),
                ),
                (
                    "key",
                    django_counters.tables.counter.KeyField(max_length=200, verbose_name="key"),
                ),
                ("entries", models.BigIntegerField(verbose_name="entries")),
                (
                    "delta_sum",
                    models.DecimalField(decimal_places=0, max_digits=40, verbose_name="sum"),
                ),
            ],
            options={
                "verbose_name": "counter archive",
                "verbose_name_plural": "counter archives",
            },
        ),
        CreateLedger(
            name="CounterDelta",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "token",
                        "created_at",
                        blank=True,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("token", models.UUIDField(verbose_name="token")),
                ("created_at", models.DateTimeField(verbose_name="created at")),
                (
                    "key",
                    django_counters.tables.counter.KeyField(max_length=200, verbose_name="key"),
                ),
                ("delta", models.BigIntegerField(verbose_name="delta")),
                (
                    "kind",
                    models.SmallIntegerField(
                        choices=[(0, "increment"), (1, "adjustment")],
                        default=0,
                        verbose_name="kind",
                    ),
                ),
                ("xid", models.BigIntegerField(verbose_name="transaction")),
                ("seq", models.BigIntegerField(verbose_name="sequence number")),
            ],
            options={
                "verbose_name": "counter entry",
                "verbose_name_plural": "counter entries",
            },
        ),
        migrations.CreateModel(
            name="CounterHorizon",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("horizon", models.BigIntegerField(default=0, verbose_name="horizon")),
                ("fence", models.BigIntegerField(default=0, verbose_name="fence")),
                ("cluster", models.BigIntegerField(blank=True, null=True, verbose_name="cluster")),
                (
                    "as_of",
                    models.DateTimeField(
                        default=django_counters.tables.horizon.beginning, verbose_name="as of"
                    ),
                ),
                (
                    "tail_since",
                    models.DateTimeField(
                        default=django_counters.tables.horizon.beginning, verbose_name="tail since"
                    ),
                ),
                ("mark_xid", models.BigIntegerField(default=0, verbose_name="mark")),
                (
                    "mark_at",
                    models.DateTimeField(
                        default=django_counters.tables.horizon.beginning,
                        verbose_name="time of the mark",
                    ),
                ),
                (
                    "rolled_up_at",
                    models.DateTimeField(
                        default=django_counters.tables.horizon.beginning,
                        verbose_name="rolled up at",
                    ),
                ),
                (
                    "token_window",
                    models.DurationField(
                        default=timedelta(days=2), verbose_name="window of tokens"
                    ),
                ),
            ],
            options={
                "verbose_name": "counter horizon",
                "verbose_name_plural": "counter horizons",
            },
        ),
        migrations.CreateModel(
            name="CounterPartition",
            fields=[
                (
                    "name",
                    models.CharField(
                        max_length=63, primary_key=True, serialize=False, verbose_name="name"
                    ),
                ),
                ("since", models.DateTimeField(verbose_name="since")),
                ("until", models.DateTimeField(verbose_name="until")),
                ("entries", models.BigIntegerField(verbose_name="entries")),
                (
                    "delta_sum",
                    models.DecimalField(decimal_places=0, max_digits=40, verbose_name="sum"),
                ),
                (
                    "fence",
                    models.BigIntegerField(blank=True, null=True, verbose_name="fence"),
                ),
                (
                    "first_xid",
                    models.BigIntegerField(blank=True, null=True, verbose_name="first transaction"),
                ),
                (
                    "last_xid",
                    models.BigIntegerField(blank=True, null=True, verbose_name="last transaction"),
                ),
                (
                    "last_seq",
                    models.BigIntegerField(
                        blank=True, null=True, verbose_name="last sequence number"
                    ),
                ),
                ("sealed_at", models.DateTimeField(verbose_name="sealed at")),
                (
                    "dropped_at",
                    models.DateTimeField(blank=True, null=True, verbose_name="dropped at"),
                ),
            ],
            options={
                "verbose_name": "counter partition",
                "verbose_name_plural": "counter partitions",
            },
        ),
        migrations.RunPython(
            make_functions, migrations.RunPython.noop, hints={"model_name": "counterdelta"}
        ),
    ]
