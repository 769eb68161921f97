"""The rollup of what is pending, in MySQL."""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

from django_counters.stores.sql.dialects.fold import Fold
from django_counters.stores.sql.dialects.mysql.taking import ROOM, TEXT
from django_counters.stores.sql.dialects.mysql.waiting import BY_KEY, at_most
from django_counters.stores.sql.dialects.spelling import Together
from django_counters.stores.sql.dialects.tables import TOTAL


class _Total(NamedTuple):
    """Where totals stand, and what a new one is: among the slots where they have no column."""

    table: str
    key: str
    value: str
    columns: str
    row: str
    there: str
    scope: str = ""


def _a_row_for_each(given: str) -> str:
    """As many rows as the statement before it has changed, of a list with one for each."""
    return (
        f"SET @djc_made = ROW_COUNT(); SELECT 1 FROM JSON_TABLE({given}, '$[*]' "
        "COLUMNS (n FOR ORDINALITY)) AS u WHERE u.n <= @djc_made"
    )


class MysqlFold(Fold):
    """The statements of a rollup. A row is deleted when it is held, and has been read then."""

    @cached_property
    def ensure(self) -> str:
        """Make totals that are missing. Whoever changes one that is there is not waited for."""
        return self._ensuring()

    @cached_property
    def ensure_at_once(self) -> str:
        """Make totals that are missing; an error of a lock where somebody is just making one."""
        return self._ensuring(at_most(0))

    def _made(self, present: str) -> str:  # noqa: ARG002 - what becomes of one is of standard SQL
        """Hold all totals, and make those that are missing."""
        total, rows = self._total, self._rows
        kept = f"{total.table}.{total.value} = {total.table}.{total.value}"
        return Together(
            f"{total.scope}SET @djc_keys = JSON_ARRAY%s; INSERT INTO {total.columns} "
            f"SELECT {total.row} FROM {rows} {self._in.ordered('u.k')} "
            f"ON DUPLICATE KEY UPDATE {kept}; SELECT t.{total.key} FROM {rows} "
            f"STRAIGHT_JOIN {total.table} t {BY_KEY} ON {total.there} FOR UPDATE"
        )

    def _ensuring(self, patience: str = "") -> str:
        total, rows = self._total, self._rows
        there = f"SELECT 1 FROM {total.table} t WHERE {total.there}"
        # Nothing but a row that is there can be ignored: what is pending has the same keys, and
        # NULL, which stands for no keys, is none. It would become an empty key.
        return (
            f"{total.scope}SET @djc_keys = JSON_ARRAY%s; "
            f"{patience}INSERT IGNORE INTO {total.columns} SELECT {total.row} FROM {rows} "
            f"WHERE u.k IS NOT NULL AND NOT EXISTS ({there}) {self._in.ordered('u.k')}; "
            f"{_a_row_for_each('@djc_keys')}"
        )

    @cached_property
    def _rows(self) -> str:
        """The keys that are given, in a column ``k``."""
        return self._in.each("text").replace("%s", "@djc_keys").replace("JSON_ARRAY@", "@")

    @cached_property
    def _total(self) -> _Total:
        table, pending = self._table, self._table.pending
        if table.value:
            columns = f"{table.name} ({table.key}, {table.value}, {table.touched})"
            row, there = f"u.k, 0, {self._in.now}", f"t.{table.key} = u.k"
            return _Total(table.name, table.key, table.value, columns, row, there)
        kind, key, label = pending.owner
        return _Total(
            pending.name,
            key,
            pending.value,
            f"{pending.name} ({kind}, {label}, {key}, {pending.number}, {pending.value})",
            f"@djc_kind, @djc_name, u.k, {TOTAL}, 0",
            f"t.{kind} = @djc_kind AND t.{label} = @djc_name AND t.{key} = u.k "
            f"AND t.{pending.number} = {TOTAL}",
            "SET @djc_kind = %s, @djc_name = %s; ",
        )

    @cached_property
    def take(self) -> str:
        """Delete rows that nobody holds; what they had."""
        number = self._table.pending.number
        half = f"p.{self._key} IN %s AND ABS(p.{number}) %% 2 = %s"
        return self._gone(half, self._in.skipping, "u.k, u.d, 1")

    @cached_property
    def gather(self) -> str:
        """Delete all rows, waiting for whoever holds some."""
        number = self._table.pending.number
        return self._gone(f"p.{number} >= 0 AND p.{self._key} IN %s", "", "u.k, u.d")

    def _gone(self, which: str, skipping: str, columns: str) -> str:
        """Delete rows; parameters: the scope, and those of the condition."""
        pending, scoped = self._table.pending, self._scoped()
        record = pending.record
        gone = (
            f"JSON_TABLE(@djc_rows, '$[*]' COLUMNS (k {TEXT} PATH '$[0]', "
            "n BIGINT PATH '$[1]', d BIGINT PATH '$[2]')) AS u"
        )
        scope = "SET @djc_kind = %s, @djc_name = %s; " if record else ""
        for name in ("@djc_kind", "@djc_name") if record else ():
            scoped = scoped.replace("%s", name, 1)
        return Together(
            f"{ROOM}{scope}SELECT JSON_ARRAYAGG(JSON_ARRAY(p.{self._key}, p.{pending.number}, "
            f"p.{pending.value})) INTO @djc_rows FROM {pending.name} p "
            f"WHERE {scoped} AND {which} FOR UPDATE{skipping}; "
            f"DELETE p FROM {gone} STRAIGHT_JOIN {pending.name} p {BY_KEY} "
            f"ON {scoped} AND p.{self._key} = u.k AND p.{pending.number} = u.n; "
            f"SELECT {columns} FROM {gone}"
        )

    @cached_property
    def credit(self) -> str:
        """Add sums to totals. A row for each."""
        table, pending = self._table, self._table.pending
        kind, value = self._type if table.value else "text", table.value or pending.value
        rows = self._in.rows(k=kind, d="bigint").replace("%s", "@djc_rows")
        scope, also = "", ""
        if table.value:
            name, there = table.name, f"t.{table.key} = u.k"
            if table.touched:
                also += f", t.{table.touched} = {self._in.now}"
            if table.outside:
                also += f", t.{table.outside} = t.{table.outside} + u.d"
        else:
            of, record, label = pending.owner
            scope, name = "SET @djc_kind = %s, @djc_name = %s; ", pending.name
            there = (
                f"t.{of} = @djc_kind AND t.{label} = @djc_name AND t.{record} = u.k "
                f"AND t.{pending.number} = {TOTAL}"
            )
        return (
            f"{scope}SET @djc_rows = %s; UPDATE {rows} STRAIGHT_JOIN {name} t {BY_KEY} "
            f"ON {there} SET t.{value} = CAST(t.{value} AS SIGNED) + u.d{also}; "
            f"{_a_row_for_each('@djc_rows')}"
        )

    @cached_property
    def orphans(self) -> str:
        """Delete what waits for records that are no more. A row for each."""
        table, pending = self._table, self._table.pending
        scoped = self._scoped().replace("%s", "@djc_kind", 1).replace("%s", "@djc_name", 1)
        record = (
            f"SELECT 1 FROM {table.name} t WHERE t.{table.key} {self._in.among(self._type)} "
            f"AND {self._in.as_text(f't.{table.key}')} = p.{self._key}"
        )
        gone = (
            f"JSON_TABLE(@djc_rows, '$[*]' COLUMNS (k {TEXT} PATH '$[0]', "
            "n BIGINT PATH '$[1]')) AS u"
        )
        return Together(
            f"{ROOM}SET @djc_kind = %s, @djc_name = %s; "
            f"SELECT JSON_ARRAYAGG(JSON_ARRAY(p.{self._key}, p.{pending.number})) INTO @djc_rows "
            f"FROM {pending.name} p WHERE {scoped} AND p.{self._key} IN %s "
            f"AND NOT EXISTS ({record}) FOR UPDATE{self._in.skipping}; "
            f"DELETE p FROM {gone} STRAIGHT_JOIN {pending.name} p {BY_KEY} "
            f"ON {scoped} AND p.{self._key} = u.k AND p.{pending.number} = u.n; "
            f"SELECT 1 FROM {gone}"
        )
