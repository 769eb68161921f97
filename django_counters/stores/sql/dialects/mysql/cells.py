"""Cells in MySQL."""

from __future__ import annotations

from functools import cached_property

from django_counters.stores.sql.dialects.cells import MEMBER, Cells, Kind
from django_counters.stores.sql.dialects.tables import MEMBERS

#: Of how many shards of cells a connection has one, where a change waits for nobody.
_SHARDS = 16


class MysqlCells(Cells):
    """Adds to cells, by a statement for each kind."""

    def add(self, kind: Kind) -> str:
        """Add rows of a kind."""
        return self._insert(kind, ", ".join(f"u.{letter}" for letter in kind.columns))

    def apart(self, kind: Kind) -> str:
        """The same to the shard of the connection."""
        shard = f"CONNECTION_ID() %% {_SHARDS}"
        return self._insert(
            kind, ", ".join(shard if letter == "n" else f"u.{letter}" for letter in kind.columns)
        )

    @cached_property
    def take_members(self) -> str:
        """Delete some members that nobody holds, and give them."""
        names = [name for name, _ in MEMBER.columns.values()]
        order = ", ".join(f"`{name}`" for name in names)
        return self._in.delete_some(MEMBERS, f"ORDER BY {order} LIMIT %s", ", ".join(names))

    def _insert(self, kind: Kind, columns: str) -> str:
        names = {letter: f"`{name}`" for letter, (name, _) in kind.columns.items()}
        amount = names.get(kind.amount)
        first = next(iter(names.values()))
        again = (
            f"{amount} = {kind.table}.{amount} + VALUES({amount})"
            if amount
            else (f"{first} = {kind.table}.{first}")
        )
        return (
            f"INSERT INTO {kind.table} ({', '.join(names.values())}) SELECT {columns} "
            f"FROM {self.given(kind)} ON DUPLICATE KEY UPDATE {again}"
        )
