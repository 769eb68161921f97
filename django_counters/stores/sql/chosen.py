"""Adds to columns of many records, which a queryset of the project chooses."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

from django_counters.stores.sql.dialects import Table
from django_counters.stores.sql.records import RecordKeys
from django_counters.stores.sql.session import Owner, Session
from django_counters.stores.sql.totals import SqlReads
from django_counters.types import INT8, Bounds

# No number is between them.
_NONE = (1, 0)


class Column(NamedTuple):
    """The addition to one column of each row, and its bounds."""

    table: Table
    by: int
    bounds: Bounds

    @property
    def admitting(self) -> tuple[int, int]:
        """The least and the greatest value that may change by this."""
        floor, ceiling = self.bounds.within(self.table.capacity)
        if self.by > 0:
            last = ceiling - self.by  # type: ignore[operator]
            return (INT8[0], last) if last >= INT8[0] else _NONE
        first = floor - self.by  # type: ignore[operator]
        return (first, INT8[1]) if first <= INT8[1] else _NONE


def add_at_once(
    session: Session, query: tuple[str, Sequence[Any]], columns: Sequence[Column]
) -> list[tuple[Any, ...]] | None:
    """Add to columns of one table in one statement: to all rows of a query, or to none.

    Returns the keys with their new values. None, and nothing changed, where bounds refuse, where
    increments wait elsewhere, and where the database has no such statement.
    """
    if not session.dialect.changes_chosen:
        return None
    chosen, params = query
    tables = [column.table.quoted(session.quote) for column in columns]
    sql = session.dialect.chosen(chosen, tables)
    asked: list[Any] = list(params)
    for column in columns:
        asked += [*column.admitting, *Owner(column.table.pending, session).kind()]
    rows = session.run(sql, (*asked, *(column.by for column in columns)))
    return None if any(key is None for key, *_ in rows) else list(rows)


class SqlHeld(SqlReads):
    """Reads and changes one column of rows that the caller holds."""

    def add(self, key_field: Any, keys: Sequence[Hashable], by: int) -> None:
        """Add to totals. Asks no bounds: the caller has looked at them."""
        dialect = self._session.dialect
        fold = dialect.fold(self._quoted, RecordKeys(key_field, self._session.using).type)
        self._session.run(fold.credit, dialect.sums(dict.fromkeys(keys, by)))
