"""For tests that change tables or triggers: some databases commit the transaction at that."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from django.db import connection

#: Where no rollback takes such a change back.
DDL_COMMITS = not connection.features.can_rollback_ddl
#: Such a test needs transactions of its own there, and leaves the schema as it was.
changes_schema = pytest.mark.django_db(transaction=DDL_COMMITS)


@contextmanager
def renamed(table: str) -> Iterator[None]:
    """A block in which a table has another name."""
    _execute(f"ALTER TABLE {table} RENAME TO elsewhere")
    try:
        yield
    finally:
        if DDL_COMMITS:
            _execute(f"ALTER TABLE elsewhere RENAME TO {table}")


@contextmanager
def renamed_column(table: str, column: str) -> Iterator[None]:
    """A block in which a column has another name."""
    _execute(f"ALTER TABLE {table} RENAME COLUMN {column} TO elsewhere")
    try:
        yield
    finally:
        if DDL_COMMITS:
            _execute(f"ALTER TABLE {table} RENAME COLUMN elsewhere TO {column}")


def _execute(sql: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(sql)
