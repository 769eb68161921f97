"""The statements about rows that make a change count; see `conditions`."""

from __future__ import annotations

from django_counters.conditions import ConditionKind
from django_counters.stores.sql.dialects.spelling import Spelling
from django_counters.stores.sql.dialects.spread import SpreadStatements
from django_counters.stores.sql.dialects.tables import Table
from django_counters.stores.sql.dialects.totals import Totals


class Conditions:
    """Makes and deletes the rows of conditions."""

    def __init__(self, spelling: Spelling) -> None:
        self._in = spelling

    def claim(self, kind: ConditionKind) -> str:
        """Make a row, unless there is one. Parameters: its columns. Rows: one if it is new."""
        return f"{self._insert(kind)} DO NOTHING RETURNING 1"

    def renew(self, kind: ConditionKind) -> str:
        """Do the same, or set the moment of a row that was made until another moment.

        Parameters: its columns, that moment.
        """
        *key, made = (column.name for column in kind.columns)
        return (
            f"{self._insert(kind)} ({', '.join(key)}) DO UPDATE SET {made} = EXCLUDED.{made} "
            f"WHERE a.{made} <= %s RETURNING 1"
        )

    def _insert(self, kind: ConditionKind) -> str:
        names = ", ".join(column.name for column in kind.columns)
        values = ", ".join("%s" for _ in kind.columns)
        return f"INSERT INTO {kind.table} AS a ({names}) VALUES ({values}) ON CONFLICT"

    def release(self, kind: ConditionKind) -> str:
        """Delete a row. Parameters: its columns but the last. Rows: when it was made."""
        *key, made = (column.name for column in kind.columns)
        return (
            f"DELETE FROM {kind.table} WHERE {' AND '.join(f'{name} = %s' for name in key)} "
            f"RETURNING {made}"
        )

    def hold(self, table: Table) -> str:
        """Keep others from deleting a record until the transaction ends. Parameters: its key.

        A transaction that deletes one holds it, and then deletes its rows: so a transaction that
        deletes such a row by itself holds the record before it. Empty if there is one writer.
        """
        held = f"SELECT 1 FROM {table.name} WHERE {table.key} = %s{self._in.kept}"
        return held if self._in.kept and table.value and table.pending.record else ""

    def totals(
        self,
        kind: ConditionKind,  # noqa: ARG002
        sql: Totals,  # noqa: ARG002
        table: Table,  # noqa: ARG002
        one: str,  # noqa: ARG002
        by: int,  # noqa: ARG002
        *,
        alone: bool,  # noqa: ARG002
    ) -> str | None:
        """Return one statement that adds one to a total, or takes one away, on a condition.

        The row comes first. Parameters: its columns; if one is taken away from a record, that of
        `hold`; limit, and with ``kind.whole`` for a named counter nothing else; those of a change;
        those of ``one``, which reads a value. Rows: none if the record is missing; the new value,
        and the present one if the row was not as it has to be. If both are NULL, the change was
        refused, and the row is as it was. None: the database has no such statement.

        ``alone``: without cells. The row may then be one text, which has "=" before the present
        value.
        """
        return None

    def spread(
        self,
        kind: ConditionKind,  # noqa: ARG002
        sql: SpreadStatements,  # noqa: ARG002
        table: Table,  # noqa: ARG002
        one: str,  # noqa: ARG002
        by: int,  # noqa: ARG002
        *,
        alone: bool,  # noqa: ARG002
    ) -> str | None:
        """Return one statement that does the same if increments wait.

        Parameters: the columns of the row; of a record that of `hold`; those of
        `SpreadStatements.arrange`, or with ``kind.whole`` for a named counter the number of a row;
        those of ``one``. Rows: the new value, the number of the row that was taken, the present
        value.
        """
        return None
