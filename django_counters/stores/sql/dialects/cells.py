"""The statements that add to cells: to rows that a change writes beside its total."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from django_counters.measure import KEY, Kind, RowColumn
from django_counters.stores.sql.dialects.spelling import Spelling


def names(columns: Iterable[RowColumn]) -> list[str]:
    """The names of columns."""
    return [column.name for column in columns]


def array(values: Iterable[object]) -> str:
    """An array of PostgreSQL, of what needs no quotes."""
    return f"{{{','.join(map(str, values))}}}"


def insert(kind: Kind, source: str, added: str = "t.value + EXCLUDED.value") -> str:
    """Add the rows of a SELECT to those of a kind. ``added``: the sum of both values.

    A row without a number is not written again, and nobody waits for it.
    """
    again = f"UPDATE SET value = {added}" if kind.adds else "NOTHING"
    return (
        f"INSERT INTO {kind.table} AS t ({', '.join(names(kind.columns))}) {source} "
        f"ON CONFLICT ({', '.join(names(kind.keys))}) DO {again}"
    )


class Cells:
    """Adds to cells.

    Attributes:
        join: whether one statement can make a change and add to its cells.
    """

    join = False

    def __init__(self, spelling: Spelling) -> None:
        self._in = spelling

    def given(self, kind: Kind) -> str:
        """Rows that are given as parameters: those of `arrange`."""
        return self._in.rows(**{column.letter: column.type for column in kind.columns})

    def add(self, kind: Kind) -> str:
        """Add rows of a kind. Parameters: the rows."""
        added = self._in.added("t.value", "EXCLUDED.value")
        source = f"SELECT {', '.join(kind.letters)} FROM {self.given(kind)} WHERE true"
        return insert(kind, source, added)

    def apart(self, kind: Kind) -> str:
        """The same to a shard that no other transaction uses, where rows have shards."""
        return self.add(kind)

    def delete_some(self, table: str, columns: Sequence[RowColumn], which: str) -> str:  # noqa: ARG002
        """Delete some rows of a table with this primary key.

        ``which``: the clauses that name them.
        """
        return self._in.delete_some(table, which)

    def prune(self, kind: Kind) -> str:
        """Delete the rows of a counter that come to nothing.

        Parameters: the columns up to the key.
        """
        first = kind.columns[: kind.columns.index(KEY) + 1]
        named = " AND ".join(f"{kind.table}.{column.name} = %s" for column in first)
        return self._in.delete_some(kind.table, f"WHERE {named} AND {kind.table}.value = 0")

    def drain(self, kind: Kind) -> str:
        """Delete some unlocked rows of a kind without numbers, and return them.

        Parameters: how many.
        """
        columns = ", ".join(names(kind.columns))
        return self._in.delete_some(kind.table, f"ORDER BY {columns} LIMIT %s", columns)

    def arrange(self, kind: Kind, rows: Sequence[Sequence[Any]]) -> tuple[Any, ...]:  # noqa: ARG002
        """The parameters of rows of a kind."""
        return self._in.columns(rows)

    def alike(self, rows: Mapping[Kind, Sequence[Sequence[Any]]]) -> tuple[Any, ...] | None:  # noqa: ARG002
        """The parameters of the functions of rows of one counter, by kind.

        None where one kind has no numbers, or rows that differ by more than their periods.
        """
        return None

    def beside(self, change: str, columns: Sequence[str], kinds: Sequence[Kind]) -> str:
        """One statement of a change and its effects, which are added where it has counted.

        Given the text of the change, and the names of its columns: ``k`` is a key, where there are
        several; ``v`` the new value, NULL where nothing was counted; ``n`` the row that was taken,
        which is the shard of its cells. Parameters: those of the change, then the rows of each
        kind. Rows: those of the change.
        """
        raise NotImplementedError

    def after(self, change: str, columns: Sequence[str], kinds: Sequence[Kind]) -> str:
        """The same for one counter, and for rows that are `alike`; so are its parameters."""
        raise NotImplementedError

    def guarded(self, change: str, columns: Sequence[str], kinds: Sequence[Kind], call: str) -> str:
        """The same, and the `call` of a guard around it. Its last parameters are the guard's."""
        raise NotImplementedError
