from __future__ import annotations

from typing import Any

from django.db import migrations, models

import django_counters.tables.counter


def make_guard(_apps: Any, schema_editor: Any) -> None:
    """Whatever is lost of it later is made again after ``migrate``."""
    from django_counters.adjustments import guard

    guard.make(schema_editor.connection.alias)


def remove_guard(_apps: Any, schema_editor: Any) -> None:
    from django_counters.adjustments import guard

    guard.remove(schema_editor.connection.alias)


class Migration(migrations.Migration):
    dependencies = [("django_counters", "0002_ledger")]

    operations = [
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
                    django_counters.tables.counter.KeyField(max_length=255, verbose_name="key"),
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
                    django_counters.tables.counter.KeyField(max_length=255, verbose_name="key"),
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
        migrations.RunPython(make_guard, remove_guard),
    ]
