"""PostgreSQL 14 and newer."""

from __future__ import annotations

from collections.abc import Sequence

from django.db import InterfaceError, OperationalError

from django_counters.stores.sql.dialects.base import Dialect, Statements, Table, statements
from django_counters.types import Delta

NOW = "STATEMENT_TIMESTAMP()"


def _statements(table: Table) -> Statements:
    return statements(table, NOW, add_many=_add_many(table), read=_read(table))


def _add_many(table: Table) -> str:
    """Insert or add many. Parameters: keys, deltas.

    Rows are locked in the order in which they are inserted; the sort makes that order the same
    for all writers, so that no two of them wait for each other.
    """
    return (
        f"INSERT INTO {table.name} AS t ({table.key}, {table.value}, {table.touched}) "
        f"SELECT u.k, u.d, {NOW} FROM unnest(%s::text[], %s::bigint[]) AS u (k, d) "
        'ORDER BY u.k COLLATE "C" '
        f"ON CONFLICT ({table.key}) DO UPDATE "
        f"SET {table.value} = t.{table.value} + EXCLUDED.{table.value}, "
        f"{table.touched} = EXCLUDED.{table.touched} "
        f"RETURNING {table.key}, {table.value}"
    )


def _read(table: Table) -> str:
    """Read many. Parameters: keys."""
    return f"SELECT {table.key}, {table.value} FROM {table.name} WHERE {table.key} = ANY(%s)"


def _batch(deltas: Sequence[Delta]) -> Sequence[object]:
    return [delta.key for delta in deltas], [delta.by for delta in deltas]


def _sqlstate(error: Exception) -> str | None:
    cause = error.__cause__
    state = getattr(cause, "sqlstate", None) or getattr(cause, "pgcode", None)
    return None if state is None else str(state)


def _lost(error: Exception) -> bool:
    """Whether the connection ended before the answer, or with the server's last words."""
    state = _sqlstate(error)
    if state is None:
        return isinstance(error, InterfaceError | OperationalError)
    return state.startswith(("08", "57P"))


DIALECT = Dialect(
    statements=_statements,
    batch=_batch,
    keys=list,
    overflowed=lambda error: _sqlstate(error) == "22003",
    read_only=lambda error: _sqlstate(error) == "25006",
    lost=_lost,
)
