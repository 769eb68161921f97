"""The statements that add to cells, and to other tables that a change writes beside its total."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from django_counters.effects import sharded_kinds
from django_counters.measure import LETTERS, Kind
from django_counters.stores.sql.dialects.spelling import Spelling

#: The name and the type of each column, by its letter.
COLUMNS = {
    "m": ("measure_id", "int"),
    "k": ("key", "text"),
    "p": ("period", "smallint"),
    "s": ("start", "timestamptz"),
    "t": ("tags", "text"),
    "w": ("member", "bigint"),
    "n": ("shard", "smallint"),
    "d": ("value", "bigint"),
}
assert "".join(COLUMNS) == LETTERS
OLD_ROWS = "WHERE measure_id = %s AND period = %s AND start < %s LIMIT %s"
#: Periods with a number each: rows of a parameter, which no table has.
NUMBERED_PERIODS = Kind("numbered", "", "", "mpskd", order=0)


def names(letters: str) -> list[str]:
    """The names of columns."""
    return [COLUMNS[letter][0] for letter in letters]


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
        self._used: dict[Kind, str] = {}

    def given(self, kind: Kind) -> str:
        """Rows that are given as parameters: those of `arrange`."""
        return self._in.rows(**{letter: COLUMNS[letter][1] for letter in kind.columns})

    def add(self, kind: Kind) -> str:
        """Add rows of a kind. Parameters: the rows."""
        added = self._in.added("t.value", "EXCLUDED.value")
        source = f"SELECT {', '.join(kind.columns)} FROM {self.given(kind)} WHERE true"
        return insert(kind, source, added)

    def apart(self, kind: Kind) -> str:
        """The same to a shard that no other transaction uses, where rows have shards."""
        return self.add(kind)

    def forget(self, table: str, columns: Sequence[str]) -> str:  # noqa: ARG002
        """Delete some rows of a period. Parameters: measure, period, before when, how many.

        Args:
            table: the table.
            columns: those of its primary key.
        """
        return self._in.delete_some(table, OLD_ROWS)

    def used(self, kind: Kind) -> str:
        """What periods have counted, over tags and shards. Parameters: `NUMBERED_PERIODS`.

        Rows: the number and the sum of each period that has counted something.
        """
        known = self._used.get(kind)
        if known is None:
            known = self._used[kind] = (
                f"SELECT u.d, SUM(c.value) FROM {self.given(NUMBERED_PERIODS)} JOIN {kind.table} c "
                "ON c.measure_id = u.m AND c.key = u.k AND c.period = u.p AND c.start = u.s "
                "GROUP BY u.d"
            )
        return known

    def counted(self, value: str) -> str:
        """The value of one counter and the numbers of its periods, of one moment.

        Given the statement that reads its total and what is pending. Parameters: those of it, then
        measure and key for each kind. Rows: the number of the kind, period, start, tags, value and
        shard; of the value -1, nothing, nothing, nothing, the total and what is pending.
        """
        rows = [
            f"SELECT {number}, c.period, c.start, c.tags, c.value, c.shard FROM {kind.table} c "
            "WHERE c.measure_id = %s AND c.key = %s"
            for number, kind in enumerate(sharded_kinds())
        ]
        return " UNION ALL ".join((f"SELECT -1, NULL, NULL, NULL, v.* FROM ({value}) v", *rows))

    def prune(self, kind: Kind) -> str:
        """Delete the rows of a counter that come to nothing. Parameters: measure, key."""
        name = kind.table
        return self._in.delete_some(
            name, f"WHERE {name}.measure_id = %s AND {name}.key = %s AND {name}.value = 0"
        )

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
