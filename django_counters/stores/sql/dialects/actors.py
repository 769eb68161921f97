"""The statements about who has counted what."""

from __future__ import annotations

from django_counters.stores.sql.dialects.spelling import Spelling
from django_counters.stores.sql.dialects.spread import SpreadStatements
from django_counters.stores.sql.dialects.tables import ACTORS, Table
from django_counters.stores.sql.dialects.totals import Totals

_COLUMNS = "measure_id, key, actor, created_at"
#: One person and one counter. Parameters: measure, key, actor.
_ONE = "measure_id = %s AND key = %s AND actor = %s"


class Actors:
    """Makes and deletes the rows of those who may count once.

    Attributes:
        claim: make a row, unless there is one. Parameters: measure, key, actor, moment. A row of
            the result where it is new.
        renew: the same, or set the moment of one that is older than another moment. That is the
            last parameter.
        release: delete a row. Parameters: measure, key, actor. Rows: when it was made.
        rename: give a row another actor. Parameters: that, measure, key, actor. A row where it was.
    """

    def __init__(self, spelling: Spelling) -> None:
        self._in = spelling
        insert = f"INSERT INTO {ACTORS} AS a ({_COLUMNS}) VALUES (%s, %s, %s, %s) ON CONFLICT"
        self.claim = f"{insert} DO NOTHING RETURNING 1"
        self.renew = (
            f"{insert} (measure_id, key, actor) DO UPDATE SET created_at = EXCLUDED.created_at "
            "WHERE a.created_at <= %s RETURNING 1"
        )
        self.release = f"DELETE FROM {ACTORS} WHERE {_ONE} RETURNING created_at"
        self.rename = f"UPDATE {ACTORS} SET actor = %s WHERE {_ONE} RETURNING 1"

    def hold(self, table: Table) -> str:
        """Keep others from deleting a record until the transaction ends. Parameters: its key.

        A transaction that deletes one holds it, and then deletes its rows: so a transaction that
        deletes such a row by itself holds the record before it. Empty where there is one writer.
        """
        held = f"SELECT 1 FROM {table.name} WHERE {table.key} = %s{self._in.kept}"
        return held if self._in.kept and table.value and table.pending.record else ""

    def totals(
        self,
        sql: Totals,  # noqa: ARG002
        table: Table,  # noqa: ARG002
        one: str,  # noqa: ARG002
        by: int,  # noqa: ARG002
        *,
        alone: bool,  # noqa: ARG002
    ) -> str | None:
        """One statement that adds one to a total, or takes one away, with the row of an actor.

        The row comes first. Parameters: measure, key as text, actor, moment; where one is taken
        away, of records, that of `hold`; limit; of records also those of a change and of ``one``,
        which reads a value. Rows: none where the record is not there; the new value, and the
        present one where the actor was counted before, or was not. Where both are NULL the change
        was refused, and the row is as it was. None: the database has no such statement.

        ``alone``: without cells. The row may then be one text, which has "=" before the present
        value.
        """
        return None

    def spread(
        self,
        sql: SpreadStatements,  # noqa: ARG002
        table: Table,  # noqa: ARG002
        one: str,  # noqa: ARG002
        by: int,  # noqa: ARG002
        *,
        alone: bool,  # noqa: ARG002
    ) -> str | None:
        """One statement that does the same where increments wait.

        Parameters: measure, key as text, actor, moment; of records that of `hold`; those of
        `SpreadStatements.arrange`; of records those of ``one``. Rows: the new value, the number of
        the row that was taken, the present value.
        """
        return None

    def _text(self, key: str) -> str:
        """A key as text, compared byte by byte."""
        return self._in.as_text(key)

    def differing(self, table: Table) -> str:
        """Counters that have not as many rows as they count, of one moment.

        Parameters: the measure, and of records the content type. Rows: keys, rows, values.
        """
        pending = table.pending
        mine = f"FROM {ACTORS} a WHERE a.measure_id = %s"
        counted = [f"SELECT a.key AS k, 1 AS rows_of, 0 AS value {mine}"]
        if table.value:
            counted.append(f"SELECT {self._text(table.key)}, 0, {table.value} FROM {table.name}")
        if pending.record is None:
            (owner,) = pending.owner
            counted.append(f"SELECT {owner}, 0, {pending.value} FROM {pending.name}")
        else:
            kind, record, name = pending.owner
            mine = f"{name} = {self._in.literal(pending.record[1])}"
            counted.append(
                f"SELECT {self._text(record)}, 0, {pending.value} FROM {pending.name} "
                f"WHERE {kind} = %s AND {mine}"
            )
        return (
            f"SELECT k, SUM(rows_of), SUM(value) FROM ({' UNION ALL '.join(counted)}) u "
            "GROUP BY k HAVING SUM(rows_of) <> SUM(value) ORDER BY k"
        )
