"""Claims in MySQL: the second to insert a name waits for the first one to commit or not."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from django_counters.stores.sql.dialects.claims import ClaimSql, ClaimTable
from django_counters.stores.sql.dialects.mysql.taking import TEXT, delete_some
from django_counters.stores.sql.dialects.tables import HORIZON

NOW = "UTC_TIMESTAMP(6)"
_WINDOW = f"COALESCE((SELECT token_window FROM {HORIZON} WHERE id = 1), 172800000000)"
_FRESH = (
    f"(@djc_at IS NULL OR (@djc_at > {NOW} - INTERVAL {_WINDOW} MICROSECOND "
    f"AND @djc_at < {NOW} + INTERVAL 1 HOUR))"
)


class MysqlClaims(ClaimSql):
    """Claims of MySQL.

    A row that is there counts as affected whether it changes or not, so each says by
    ``LAST_INSERT_ID`` what became of it.
    """

    now = NOW
    holding = " FOR UPDATE"

    def __init__(self, table: ClaimTable) -> None:
        columns = [f"`{column}`" for column in table.columns]
        names, first = columns[: table.keys], columns[0]
        self.keys = table.keys
        self.found = (
            f"SELECT {', '.join(columns)} FROM {table.name} WHERE {first} = %s "
            f"ORDER BY {', '.join(names)}"
        )
        self.held = self.found + self.holding
        self.known = f"SELECT {first} FROM {table.name} WHERE {first} IN %s"
        self.answer = f"UPDATE {table.name} SET {columns[-1]} = %s WHERE {first} = %s"
        old = f"WHERE {table.moment} < %s ORDER BY {table.moment} LIMIT %s"
        self.prune = delete_some(table.name, old, "1")
        given = f"SELECT IF(LAST_INSERT_ID(1), %s, NULL){', %s' * (len(columns) - 1)}, {NOW}"
        into = f"INSERT INTO {table.name} ({', '.join(columns)}, {table.moment})"
        asked = f" FROM DUAL WHERE {_FRESH}" if table.are_tokens else ""
        beside = "SET @djc_at = %s; " if table.are_tokens else ""
        self._beside = len(table.beside)
        column = f"{table.name}.{first}"
        self._once = (
            f"{beside}{into} {given}{asked} ON DUPLICATE KEY UPDATE "
            f"{column} = IF(LAST_INSERT_ID(0), NULL, {column}); "
            "SET @djc_made = ROW_COUNT() > 0 AND LAST_INSERT_ID() = 1; "
            "SET @djc_new = CONCAT(@djc_new, @djc_made); "
        )
        changed = [f"{c} = VALUES({c})" for c in (*columns[table.keys :], table.moment)]
        self._put = f"{into} VALUES ", f" ON DUPLICATE KEY UPDATE {', '.join(changed)}"
        self._row = f"({', '.join(['%s'] * len(columns))}, {NOW})"

    def claim(self, rows: Sequence[Sequence[Any]]) -> tuple[str, Sequence[Any]]:
        """Insert what is not there, one after the other, in the order of the names.

        Rows: the names that are new; bytes as hexadecimal digits.
        """
        ordered = sorted(rows, key=lambda row: _hex(row[0]))
        params: list[Any] = []
        for row in ordered:
            given, beside = row[: len(row) - self._beside], row[len(row) - self._beside :]
            # Of a token and its moment the window needs the moment alone.
            params += map(_plain, (*beside[1:], *given))
        names = json.dumps([_hex(row[0]) for row in ordered])
        told = (
            "SELECT u.k FROM JSON_TABLE(%s, '$[*]' COLUMNS (n FOR ORDINALITY, "
            f"k {TEXT} PATH '$')) AS u WHERE SUBSTRING(@djc_new, u.n, 1) = '1'"
        )
        return f"SET @djc_new = ''; {self._once * len(ordered)}{told}", (*params, names)

    def put(self, rows: Sequence[Sequence[Any]]) -> tuple[str, Sequence[Any]]:
        """Insert rows, or change what is there, in the order of the names."""
        head, tail = self._put
        ordered = sorted(rows, key=lambda row: tuple(row[: self.keys]))
        return f"{head}{', '.join([self._row] * len(rows))}{tail}", self.values(ordered)

    def values(self, rows: Sequence[Sequence[Any]]) -> Sequence[Any]:
        """The parameters of rows."""
        return [_plain(given) for row in rows for given in row]


def _plain(given: Any) -> Any:
    if isinstance(given, datetime):
        return str(given.astimezone(UTC).replace(tzinfo=None))
    return given.hex if isinstance(given, UUID) else given


def _hex(name: Any) -> str:
    return name.hex if isinstance(name, UUID) else name.hex() if isinstance(name, bytes) else name
