"""Makes the table of the ledger, which Django cannot describe in full."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.db import connections

from django_counters.stores.sql.dialects import DIALECTS
from django_counters.stores.sql.partitions import SqlPartitions
from django_counters.tables.standing import ENTRIES


@contextmanager
def ledger_table(schema_editor: Any) -> Iterator[None]:
    """While the table is created within: in partitions, where a database has them."""
    ledger = DIALECTS[schema_editor.connection.vendor].ledger
    whole = schema_editor.sql_create_table
    schema_editor.sql_create_table = whole + ledger.partition_by
    try:
        yield
    finally:
        schema_editor.sql_create_table = whole
    for statement in ledger.prepare:
        schema_editor.execute(statement)


def remake_plain_table(using: str) -> None:
    """Make the table anew where it came about without migrations; it is empty then."""
    if not SqlPartitions(using).made_plain() or ENTRIES.rows(using).exists():
        return
    model = ENTRIES.model
    with connections[using].schema_editor() as schema_editor:
        schema_editor.delete_model(model)
        with ledger_table(schema_editor):
            schema_editor.create_model(model)
