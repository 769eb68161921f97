from __future__ import annotations

from django.apps.registry import Apps
from django.db import migrations, models
from django.db.backends.base.schema import BaseDatabaseSchemaEditor

import django_counters.models.counter
import django_counters.models.total


def leave_room_in_pages(apps: Apps, schema_editor: BaseDatabaseSchemaEditor) -> None:
    """Room for new versions of a row in its own page keeps PostgreSQL's updates off the index."""
    if schema_editor.connection.vendor == "postgresql":
        table = schema_editor.quote_name(
            apps.get_model("django_counters", "Counter")._meta.db_table
        )
        schema_editor.execute(f"ALTER TABLE {table} SET (fillfactor = 60)")


class Migration(migrations.Migration):
    initial = True

    dependencies = []

    operations = [
        migrations.CreateModel(
            name="Counter",
            fields=[
                (
                    "key",
                    django_counters.models.counter.KeyField(
                        max_length=200, primary_key=True, serialize=False, verbose_name="key"
                    ),
                ),
                (
                    "value",
                    django_counters.models.total.TotalField(default=0, verbose_name="value"),
                ),
                ("updated_at", models.DateTimeField(auto_now=True, verbose_name="updated at")),
            ],
            options={"verbose_name": "counter", "verbose_name_plural": "counters"},
        ),
        migrations.RunPython(
            leave_room_in_pages, migrations.RunPython.noop, hints={"model_name": "counter"}
        ),
    ]
