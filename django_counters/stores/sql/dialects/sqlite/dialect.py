"""SQLite as a dialect."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import cached_property
from typing import Any
from uuid import UUID

from django_counters.stores.sql.dialects.base import Dialect
from django_counters.stores.sql.dialects.claims import BATCHES, ClaimSql, LandingStatements
from django_counters.stores.sql.dialects.spelling import DELTAS, HORIZON, Table, plain
from django_counters.stores.sql.dialects.totals import NamedTotals, Totals

# Claims: there is one writer at a time, so no transaction claims the same concurrently.

NOW = "STRFTIME('%%Y-%%m-%%d %%H:%%M:%%f', 'NOW')"
_WINDOW = f"(COALESCE((SELECT token_window FROM {HORIZON}), 172800000000) / 1000000)"


class SqliteClaims(ClaimSql):
    """Claims of SQLite."""

    fresh = (
        "(token IS NULL OR at > STRFTIME('%%Y-%%m-%%d %%H:%%M:%%f', 'NOW', "
        f"'-' || {_WINDOW} || ' seconds') "
        "AND at < STRFTIME('%%Y-%%m-%%d %%H:%%M:%%f', 'NOW', '+1 hour') "
        f"AND NOT EXISTS (SELECT 1 FROM {DELTAS} d WHERE d.token = g.token))"
    )

    def values(self, rows: Sequence[Sequence[Any]]) -> Sequence[Any]:
        """Texts, where there are no types."""
        return [plain(given) for row in rows for given in row]


# Totals and the dialect.


class SqliteTotals(NamedTotals):
    """Changes totals, and makes those that are missing."""

    @cached_property
    def add_many(self) -> str:
        """Insert or add many.

        SQLite turns an integer that overflows into a float without a word. The sum is therefore
        NULL where it would leave the range, and the column refuses NULL, which takes the statement
        back.
        """
        table, value = self._table, self._table.value
        present, by = f"t.{value}", f"EXCLUDED.{value}"
        outside = self._in.from_outside("u.k", "u.d")
        # The name of the table is known in RETURNING, its alias in the rest.
        whole = f"{present} + {by} + {self._waiting(f't.{table.key}')}"
        fits = f"{self._in.fits(present, by)} AND TYPEOF({whole}) = 'integer'"
        return (
            f"INSERT INTO {table.name} AS t ({table.key}, {value}, {table.touched}, "
            f"{table.outside}) SELECT u.k, u.d, {self._in.now}, {outside} "
            f"FROM {self._in.rows(k='text', d='bigint')} "
            f"WHERE true ON CONFLICT ({table.key}) DO UPDATE SET "
            f"{value} = CASE WHEN {fits} THEN {present} + {by} END, "
            f"{table.outside} = t.{table.outside} + {by}, "
            f"{table.touched} = EXCLUDED.{table.touched} RETURNING {table.key}, "
            f"{value} + {self._waiting(f'{table.name}.{table.key}')}"
        )

    def _waiting(self, key: str) -> str:
        """The amount that waits for a counter, in shards and in the ledger."""
        pending, (owner,) = self._table.pending, self._table.pending.owner
        shards = f"SELECT SUM(w.{pending.value}) FROM {pending.name} w WHERE w.{owner} = {key}"
        return f"COALESCE(({shards}), 0) + COALESCE(({self._in.tail_of(key)}), 0)"


class SqliteLanding(LandingStatements):
    """The statements that bring generations of increments into the totals."""

    # A reader that becomes a writer is refused where another transaction has written meanwhile.
    # This changes no row, but a transaction that executes it is the writer.
    begin = f"UPDATE {BATCHES} SET slot = slot WHERE generation = ''"


class SQLite(Dialect):
    """SQLite 3.35 and newer: one writer at a time, so what others hold is the whole database."""

    has_server = False
    several_writers = False

    OVERFLOWED = ("SQLITE_CONSTRAINT_NOTNULL",)
    BUSY = ("SQLITE_BUSY", "SQLITE_LOCKED")
    READ_ONLY = ("SQLITE_READONLY",)

    now = clock = NOW
    ago = "STRFTIME('%%Y-%%m-%%d %%H:%%M:%%f', 'NOW', PRINTF('-%%.3f seconds', %s))"
    later = "STRFTIME('%%Y-%%m-%%d %%H:%%M:%%f', 'NOW', PRINTF('+%%.3f seconds', %s))"
    # It knows milliseconds, no more.
    microseconds = "CAST(ROUND((JULIANDAY('NOW') - 2440587.5) * 86400000) AS INTEGER) * 1000"

    # There is one writer, and it holds everything.
    held = kept = skipping = ""
    array, gathered = "json_array", "json_group_array"

    claims = SqliteClaims
    ledger = "django_counters.ledger.sqlite.SqliteLedger"

    def __init__(self) -> None:
        super().__init__()
        self.landing = SqliteLanding(self)

    def whole(self, number: str) -> str:
        """A sum, where decimals are floats or texts."""
        return f"CAST({number} AS INTEGER)"

    def code(self, error: Exception) -> str:
        """The name of an error."""
        return str(getattr(error.__cause__, "sqlite_errorname", ""))

    def typed(self, given: str, kind: str) -> str:  # noqa: ARG002 - values have types
        """A parameter as it is."""
        return given

    def namespace(self, key: str) -> str:
        """The part before the first colon of a key."""
        return f"SUBSTR({key}, 1, MAX(INSTR({key}, ':') - 1, 0))"

    def added(self, present: str, by: str) -> str:
        """A sum, or NULL: what does not fit would become a float."""
        return f"CASE WHEN {self.fits(present, by)} THEN {present} + {by} END"

    def since_1970(self, moment: str) -> str:
        """A moment in microseconds since 1970, of which it knows milliseconds."""
        return f"CAST(ROUND((JULIANDAY({moment}) - 2440587.5) * 86400000) AS INTEGER) * 1000"

    def among(self, kind: str = "", given: str = "%s") -> str:  # noqa: ARG002 - values have types
        """The condition that a column is one of many."""
        return f"IN (SELECT value FROM json_each({given}))"

    def rows(self, **columns: str) -> str:
        """The rows of one parameter."""
        each = (f"json_extract(value, '$[{n}]') AS {name}" for n, name in enumerate(columns))
        return f"(SELECT {', '.join(each)} FROM json_each(%s)) AS u"

    def each(self, kind: str) -> str:  # noqa: ARG002 - values have types
        """The rows of an array."""
        return "(SELECT value AS k FROM json_each(%s)) AS u"

    def pairs(self, column: str) -> str:
        """The rows of pairs."""
        each = "json_extract(value, '$[0]') AS a, json_extract(value, '$[1]') AS b"
        return f"(SELECT {each} FROM json_each({column})) AS u"

    def delete_some(self, table: str, which: str, returning: str = "1") -> str:
        """Delete some rows."""
        page = f"SELECT rowid FROM {table} {which}"
        return f"DELETE FROM {table} WHERE rowid IN ({page}) RETURNING {returning}"

    def keys(self, keys: Sequence[object]) -> str:
        """One array of JSON."""
        return json.dumps([key if isinstance(key, int) else str(key) for key in keys])

    def columns(self, rows: Sequence[Sequence[Any]]) -> tuple[str]:
        """An array of rows, as JSON."""
        return (json.dumps(rows),)

    def sums(self, sums: Mapping[Any, int]) -> tuple[str]:
        """The same, of pairs."""
        return (json.dumps(list(sums.items())),)

    def moment(self, moment: datetime) -> Any:
        """As columns hold it: in UTC, without its zone."""
        return plain(moment)

    def token(self, token: UUID) -> Any:
        """As columns hold it."""
        return plain(token)

    def totals(self, table: Table) -> Totals:
        """The statements that change totals in place."""
        return SqliteTotals(self, table) if table.inserts else Totals(self, table)
