"""All tables of the core, and what Django can't describe of them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import django.db.models.deletion
from django.db import migrations, models, router

import django_counters.tables.schema
import django_counters.tables.total
from django_counters.ledger.partitions import ledger_table
from django_counters.ledger.sql import statements
from django_counters.ledger.upkeep import make_ahead
from django_counters.stores.sql.dialects import DIALECTS

# How full PostgreSQL makes the pages of a table: the rest is for new versions of its rows, which
# then need no new entries of its indexes.
FILLFACTORS = {
    "Counter": 60,
    "CounterShard": 60,
    "SlottedCounter": 60,
}


class CreateLedger(migrations.CreateModel):
    """Create the ledger's table, in partitions if the database has them."""

    def database_forwards(
        self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any
    ) -> None:
        connection = schema_editor.connection
        model = to_state.apps.get_model(app_label, self.name)
        if not self.allow_migrate_model(connection.alias, model):
            return
        with ledger_table(schema_editor):
            super().database_forwards(app_label, schema_editor, from_state, to_state)

    def database_backwards(
        self, app_label: str, schema_editor: Any, from_state: Any, to_state: Any
    ) -> None:
        connection = schema_editor.connection
        model = from_state.apps.get_model(app_label, self.name)
        if self.allow_migrate_model(connection.alias, model):
            super().database_backwards(app_label, schema_editor, from_state, to_state)
            for statement in statements(connection.alias).undo:
                schema_editor.execute(statement)


def leave_room_in_pages(apps: Any, schema_editor: Any) -> None:
    """Set the fill factors."""
    if schema_editor.connection.vendor != "postgresql":
        return
    for name, percent in FILLFACTORS.items():
        model = apps.get_model("django_counters", name)
        if router.allow_migrate_model(schema_editor.connection.alias, model):
            table = schema_editor.quote_name(model._meta.db_table)
            schema_editor.execute(f"ALTER TABLE {table} SET (fillfactor = {percent})")


def make_functions(_apps: Any, schema_editor: Any) -> None:
    """Make functions and partitions for migrations that count.

    After each ``migrate`` the functions of the installed version are made.
    """
    DIALECTS[schema_editor.connection.vendor].install(schema_editor.connection.alias)
    make_ahead(schema_editor.connection.alias)


def make_guard(_apps: Any, schema_editor: Any) -> None:
    """Make the guard of the adjustments. After each ``migrate``, its missing parts are made."""
    from django_counters.adjustments import guard

    guard.make(schema_editor.connection.alias)


def remove_guard(_apps: Any, schema_editor: Any) -> None:
    """Remove the guard: the functions of its triggers don't go with the table."""
    from django_counters.adjustments import guard

    guard.remove(schema_editor.connection.alias)


class Migration(migrations.Migration):
    initial = True

    dependencies = [("contenttypes", "0002_remove_content_type_name")]

    operations = [
        migrations.CreateModel(
            name="Counter",
            fields=[
                (
                    "key",
                    django_counters.tables.schema.KeyField(
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
                    django_counters.tables.schema.KeyField(max_length=200, verbose_name="key"),
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
                    django_counters.tables.schema.KeyField(
                        max_length=255, verbose_name="record id"
                    ),
                ),
                (
                    "name",
                    django_counters.tables.schema.KeyField(max_length=100, verbose_name="name"),
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
                    django_counters.tables.schema.DigestField(
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
                    django_counters.tables.schema.KeyField(max_length=255, verbose_name="source"),
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
                    django_counters.tables.schema.KeyField(max_length=200, verbose_name="key"),
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
                    django_counters.tables.schema.KeyField(max_length=200, verbose_name="key"),
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
                        default=django_counters.tables.schema.beginning, verbose_name="as of"
                    ),
                ),
                (
                    "tail_since",
                    models.DateTimeField(
                        default=django_counters.tables.schema.beginning, verbose_name="tail since"
                    ),
                ),
                ("mark_xid", models.BigIntegerField(default=0, verbose_name="mark")),
                (
                    "mark_at",
                    models.DateTimeField(
                        default=django_counters.tables.schema.beginning,
                        verbose_name="time of the mark",
                    ),
                ),
                (
                    "rolled_up_at",
                    models.DateTimeField(
                        default=django_counters.tables.schema.beginning,
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
        migrations.CreateModel(
            name="AdjustmentRequest",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
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
                ("to", models.BigIntegerField(blank=True, null=True, verbose_name="new value")),
                ("by", models.BigIntegerField(blank=True, null=True, verbose_name="change")),
                ("expected", models.BigIntegerField(verbose_name="value when it was asked for")),
                ("reason", models.TextField(max_length=1000, verbose_name="reason")),
                (
                    "case",
                    models.CharField(blank=True, default="", max_length=100, verbose_name="case"),
                ),
                (
                    "allow_below_floor",
                    models.BooleanField(default=False, verbose_name="below the floor"),
                ),
                (
                    "requester_id",
                    models.CharField(
                        blank=True, default="", max_length=255, verbose_name="user id"
                    ),
                ),
                ("requester_name", models.CharField(max_length=255, verbose_name="asked by")),
                ("created_at", models.DateTimeField(auto_now_add=True, verbose_name="asked at")),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("waiting", "waiting"),
                            ("approved", "approved"),
                            ("rejected", "rejected"),
                        ],
                        default="waiting",
                        max_length=10,
                        verbose_name="state",
                    ),
                ),
                (
                    "decider_id",
                    models.CharField(
                        blank=True, default="", max_length=255, verbose_name="decider id"
                    ),
                ),
                (
                    "decider_name",
                    models.CharField(
                        blank=True, default="", max_length=255, verbose_name="decided by"
                    ),
                ),
                (
                    "decided_at",
                    models.DateTimeField(blank=True, null=True, verbose_name="decided at"),
                ),
                (
                    "note",
                    models.TextField(blank=True, default="", max_length=1000, verbose_name="note"),
                ),
                (
                    "adjustment",
                    models.BigIntegerField(blank=True, null=True, verbose_name="adjustment"),
                ),
            ],
            options={
                "verbose_name": "request for an adjustment",
                "verbose_name_plural": "requests for adjustments",
                "ordering": ("-pk",),
                "default_permissions": ("view",),
                "indexes": [
                    models.Index(
                        condition=models.Q(("state", "waiting")),
                        fields=["created_at"],
                        name="counters_requests_waiting",
                    )
                ],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("by__isnull", False), ("to__isnull", True)),
                            models.Q(("by__isnull", True), ("to__isnull", False)),
                            _connector="OR",
                        ),
                        name="counters_request_to_or_by",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("decider_name", ""), ("state", "waiting")),
                            models.Q(
                                models.Q(("decider_name", ""), _negated=True),
                                models.Q(
                                    ("decider_name", models.F("requester_name")), _negated=True
                                ),
                                models.Q(
                                    ("decider_id", models.F("requester_id")),
                                    ("decider_id__gt", ""),
                                    _negated=True,
                                ),
                            ),
                            _connector="OR",
                        ),
                        name="counters_request_two_people",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="CounterAdjustment",
            fields=[
                (
                    "number",
                    models.BigIntegerField(
                        primary_key=True, serialize=False, verbose_name="number"
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
                ("before", models.BigIntegerField(verbose_name="before")),
                ("after", models.BigIntegerField(verbose_name="after")),
                ("delta", models.BigIntegerField(verbose_name="change")),
                ("reason", models.TextField(max_length=1000, verbose_name="reason")),
                (
                    "case",
                    models.CharField(blank=True, default="", max_length=100, verbose_name="case"),
                ),
                (
                    "actor_id",
                    models.CharField(
                        blank=True, default="", max_length=255, verbose_name="user id"
                    ),
                ),
                ("actor_name", models.CharField(max_length=255, verbose_name="adjusted by")),
                (
                    "approver_id",
                    models.CharField(
                        blank=True, default="", max_length=255, verbose_name="approver id"
                    ),
                ),
                (
                    "approver_name",
                    models.CharField(
                        blank=True, default="", max_length=255, verbose_name="approved by"
                    ),
                ),
                (
                    "request_id",
                    models.CharField(
                        blank=True, default="", max_length=255, verbose_name="request id"
                    ),
                ),
                (
                    "entry",
                    models.UUIDField(blank=True, null=True, verbose_name="entry of the ledger"),
                ),
                ("created_at", models.DateTimeField(verbose_name="created at")),
                ("digest", models.CharField(max_length=64, verbose_name="digest")),
            ],
            options={
                "verbose_name": "adjustment",
                "verbose_name_plural": "adjustments",
                "ordering": ("-number",),
                "select_on_save": True,
                "permissions": [
                    ("approve_adjustment", "Can approve an adjustment of somebody else")
                ],
                "default_permissions": ("view",),
                "indexes": [
                    models.Index(fields=["field", "key", "number"], name="counters_adjustments_of"),
                    models.Index(
                        condition=models.Q(("case", ""), _negated=True),
                        fields=["case", "field", "key"],
                        name="counters_adjustments_case",
                    ),
                ],
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(
                            ("approver_name", ""),
                            models.Q(
                                models.Q(("approver_name", models.F("actor_name")), _negated=True),
                                models.Q(
                                    ("approver_id", models.F("actor_id")),
                                    ("approver_id__gt", ""),
                                    _negated=True,
                                ),
                            ),
                            _connector="OR",
                        ),
                        name="counters_adjustment_two_people",
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="CounterMeasure",
            fields=[
                ("id", models.AutoField(primary_key=True, serialize=False)),
                (
                    "name",
                    django_counters.tables.schema.KeyField(
                        max_length=255, unique=True, verbose_name="name"
                    ),
                ),
                ("zone", models.CharField(max_length=64, verbose_name="time zone")),
                ("tags", models.JSONField(default=list, verbose_name="tags")),
                ("periods", models.JSONField(default=dict, verbose_name="periods")),
                ("made_at", models.DateTimeField(auto_now_add=True, verbose_name="made at")),
                (
                    "secret",
                    models.BinaryField(
                        default=django_counters.tables.schema.new_secret, verbose_name="secret"
                    ),
                ),
            ],
            options={
                "verbose_name": "counter measure",
                "verbose_name_plural": "counter measures",
            },
        ),
        migrations.CreateModel(
            name="CounterPosition",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "source",
                        "part",
                        blank=True,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                (
                    "source",
                    django_counters.tables.schema.KeyField(max_length=255, verbose_name="source"),
                ),
                (
                    "part",
                    django_counters.tables.schema.KeyField(max_length=255, verbose_name="part"),
                ),
                (
                    "position",
                    models.CharField(blank=True, max_length=255, verbose_name="position"),
                ),
                (
                    "timeline",
                    models.CharField(blank=True, max_length=255, verbose_name="timeline"),
                ),
                ("moved_at", models.DateTimeField(verbose_name="moved at")),
            ],
            options={
                "verbose_name": "counter position",
                "verbose_name_plural": "counter positions",
            },
        ),
        migrations.RunPython(leave_room_in_pages, migrations.RunPython.noop),
        migrations.RunPython(
            make_functions, migrations.RunPython.noop, hints={"model_name": "counterdelta"}
        ),
        migrations.RunPython(make_guard, remove_guard, hints={"model_name": "counteradjustment"}),
    ]
