"""SQLite 3.35 and newer, for development: one writer at a time."""

from __future__ import annotations

import json
from collections.abc import Sequence

from django_counters.stores.sql.dialects.base import Dialect, Statements, Table, statements
from django_counters.types import Delta

NOW = "STRFTIME('%%Y-%%m-%%d %%H:%%M:%%f', 'NOW')"


def _statements(table: Table) -> Statements:
    return statements(table, NOW, add_many=_add_many(table), read=_read(table))


def _add_many(table: Table) -> str:
    """Insert or add many. Parameters: deltas as one JSON object.

    SQLite turns an integer that overflows into a float without a word. The sum is therefore NULL
    where it would leave the range, and the column refuses NULL, which takes the statement back.
    """
    fits = (
        f"(EXCLUDED.{table.value} >= 0 AND "
        f"t.{table.value} <= 9223372036854775807 - EXCLUDED.{table.value}) OR "
        f"(EXCLUDED.{table.value} < 0 AND "
        f"t.{table.value} >= (-9223372036854775807 - 1) - EXCLUDED.{table.value})"
    )
    return (
        f"INSERT INTO {table.name} AS t ({table.key}, {table.value}, {table.touched}) "
        f"SELECT j.key, j.value, {NOW} FROM json_each(%s) AS j WHERE true "
        f"ON CONFLICT ({table.key}) DO UPDATE SET "
        f"{table.value} = CASE WHEN {fits} THEN t.{table.value} + EXCLUDED.{table.value} END, "
        f"{table.touched} = EXCLUDED.{table.touched} "
        f"RETURNING {table.key}, {table.value}"
    )


def _read(table: Table) -> str:
    """Read many. Parameters: keys as one JSON array."""
    return (
        f"SELECT {table.key}, {table.value} FROM {table.name} "
        f"WHERE {table.key} IN (SELECT value FROM json_each(%s))"
    )


def _batch(deltas: Sequence[Delta]) -> Sequence[object]:
    return (json.dumps({delta.key: delta.by for delta in deltas}),)


def _keys(keys: Sequence[object]) -> str:
    return json.dumps(list(keys))


def _overflowed(error: Exception) -> bool:
    return getattr(error.__cause__, "sqlite_errorname", "") == "SQLITE_CONSTRAINT_NOTNULL"


def _read_only(error: Exception) -> bool:
    return str(getattr(error.__cause__, "sqlite_errorname", "")).startswith("SQLITE_READONLY")


DIALECT = Dialect(
    statements=_statements,
    batch=_batch,
    keys=_keys,
    overflowed=_overflowed,
    read_only=_read_only,
    lost=lambda error: False,  # noqa: ARG005 - a file has no connection to lose
)
