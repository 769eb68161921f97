"""Cells in MySQL."""

from __future__ import annotations

from functools import cached_property

from django_counters.measure import MEMBER, Kind
from django_counters.stores.sql.dialects.cells import Cells, names


class MysqlCells(Cells):
    """Adds to cells, by a statement for each kind."""

    def add(self, kind: Kind) -> str:
        """Add rows of a kind."""
        return self._insert(kind, ", ".join(f"u.{letter}" for letter in kind.columns))

    @cached_property
    def take_members(self) -> str:
        """Delete some members that nobody holds, and give them."""
        columns = names(MEMBER.columns)
        order = ", ".join(f"`{name}`" for name in columns)
        return self._in.delete_some(MEMBER.table, f"ORDER BY {order} LIMIT %s", ", ".join(columns))

    def _insert(self, kind: Kind, columns: str) -> str:
        quoted = [f"`{name}`" for name in names(kind.columns)]
        # The number that is added is the last one.
        same = quoted[-1 if kind.adds else 0]
        again = f"{same} = {kind.table}.{same}" + (f" + VALUES({same})" if kind.adds else "")
        return (
            f"INSERT INTO {kind.table} ({', '.join(quoted)}) SELECT {columns} "
            f"FROM {self.given(kind)} ON DUPLICATE KEY UPDATE {again}"
        )
