"""Totals in MySQL: no statement tells what it has written, so the next one of the text does.

``LAST_INSERT_ID(expression)`` keeps a number of 64 bits for it, without a sign.
"""

from __future__ import annotations

from functools import cached_property

from django_counters.stores.sql.dialects.mysql.waiting import at_most
from django_counters.stores.sql.dialects.spelling import Either, Spelling, Together
from django_counters.stores.sql.dialects.tables import Table
from django_counters.stores.sql.dialects.totals import NamedTotals, Totals

_LEAST, _MOST = -(2**63), 2**63 - 1
#: The number that was kept.
KEPT = "CAST(LAST_INSERT_ID() AS SIGNED)"


class MysqlTotals(Totals):
    """Changes totals whose rows others insert."""

    def _change(
        self,
        comparison: str,
        by: str = "%s",
        limit: str = "%s",
        *,
        asks: bool = True,
        also: str = "",
    ) -> str:
        """Add, where the row exists and allows it."""
        table = self._table
        # The column may be one without a sign.
        new = f"CAST(LAST_INSERT_ID(CAST({table.value} AS SIGNED) + {by}) AS SIGNED)"
        touched = f", {table.touched} = {self._in.now}" if table.touched else ""
        waits = f" AND NOT {self._in.waits_for(table)}" if asks else ""
        return (
            f"UPDATE {table.name} SET {table.value} = {new}{touched} "
            f"WHERE {table.value} {comparison} {limit} AND {table.key} = %s{waits}{also}; "
            f"SELECT {KEPT} FROM DUAL WHERE ROW_COUNT() > 0"
        )


class MysqlNamedTotals(NamedTotals):
    """Changes totals, and makes those that are missing."""

    def _change(
        self,
        comparison: str,
        by: str = "%s",
        limit: str = "%s",
        *,
        asks: bool = True,
        also: str = "",  # noqa: ARG002 - no actor counts in one statement
    ) -> str:
        """Add, or insert where there is no row yet, if the value allows it.

        Whoever inserts waits for nobody. Where the first one to insert a row takes it back, all who
        wait to insert it hold the gap, and each waits for the others.
        """
        table = self._table
        given = f"SET @djc_by = {by}, @djc_bound = {limit}, @djc_key = %s; "
        waits = f" AND {self._nothing_waits}" if asks else ""
        admits = f"{table.value} {comparison} @djc_bound{waits}"
        change = (
            f"{given}UPDATE {table.name} SET {table.touched} = {self._in.now}, "
            f"{table.value} = CAST(LAST_INSERT_ID({table.value} + @djc_by) AS SIGNED) "
            f"WHERE {table.key} = @djc_key AND {admits}; "
            f"SELECT {KEPT} FROM DUAL WHERE ROW_COUNT() > 0"
        )
        # What is refused needs no lock: others hold the row of a stock that is sold out.
        looks = (
            f"{given}SET @djc_refused = NULL; SELECT 1 INTO @djc_refused FROM {table.name} "
            f"WHERE {table.key} = @djc_key AND NOT ({admits}); "
        )
        asked = f"{self._admitted(comparison)}{waits}" if asks else "true"
        made = self._made(comparison, f"@djc_refused IS NULL AND {asked}")
        return Either(change, f"{looks}{at_most(0)}{made}", f"{looks}{made}")

    def _made(self, comparison: str, asked: str) -> str:
        """Insert, or add to what others have inserted meanwhile.

        Two rows are affected where one was changed; one where it was inserted, and then 1 is kept,
        or left as it was, and then 0 is kept.
        """
        table = self._table
        value, touched = f"{table.name}.{table.value}", f"{table.name}.{table.touched}"
        allowed = f"{value} {comparison} @djc_bound"
        return (
            f"INSERT INTO {table.name} ({table.key}, {table.value}, {table.touched}) "
            "SELECT @djc_key, IF(LAST_INSERT_ID(1), @djc_by, @djc_by), "
            f"{self._in.now} FROM DUAL WHERE {asked} ON DUPLICATE KEY UPDATE "
            # From left to right: what is asked of the value comes before the value changes.
            f"{touched} = IF({allowed}, VALUES({table.touched}), {touched}), "
            f"{value} = IF({allowed}, CAST(LAST_INSERT_ID({value} + @djc_by) AS SIGNED), "
            f"IF(LAST_INSERT_ID(0), {value}, {value})); "
            f"SELECT IF(ROW_COUNT() = 2, {KEPT}, @djc_by) FROM DUAL "
            "WHERE ROW_COUNT() = 2 OR (ROW_COUNT() = 1 AND LAST_INSERT_ID() = 1)"
        )

    def _admitted(self, comparison: str) -> str:
        """A row is inserted only with a value that its bounds admit."""
        table = self._table
        return (
            f"(0 {comparison} @djc_bound OR EXISTS (SELECT 1 FROM {table.name} p "
            f"WHERE p.{table.key} = @djc_key))"
        )

    @property
    def _nothing_waits(self) -> str:
        """Nothing waits elsewhere for the counter."""
        pending = self._table.pending
        (key,) = pending.owner
        return f"NOT EXISTS (SELECT 1 FROM {pending.name} s WHERE s.{key} = @djc_key)"

    @cached_property
    def add_many(self) -> str:
        """Insert or add many. A sum that does not fit is an error."""
        table, (owner,) = self._table, self._table.pending.owner
        value = f"{table.name}.{table.value}"
        given = self._in.rows(k="text", d="bigint").replace("%s", "@djc_rows")
        shards = (
            f"SELECT SUM(w.{table.pending.value}) FROM {table.pending.name} w "
            f"WHERE w.{owner} = t.{table.key}"
        )
        return Together(
            "SET @djc_rows = %s; "
            f"INSERT INTO {table.name} ({table.key}, {table.value}, {table.touched}) "
            f"SELECT u.k, u.d, {self._in.now} FROM {given} {self._in.ordered('u.k')} "
            f"ON DUPLICATE KEY UPDATE {table.touched} = VALUES({table.touched}), "
            f"{value} = {value} + VALUES({table.value}); "
            # A value that is wider than its column is an error here, too.
            f"SELECT v.k, IF(v.v BETWEEN {_LEAST} AND {_MOST}, v.v, {_MOST} + ABS(SIGN(v.v))) "
            f"FROM (SELECT t.{table.key} AS k, t.{table.value} + COALESCE(({shards}), 0) AS v "
            f"FROM {given} "
            f"STRAIGHT_JOIN {table.name} t ON t.{table.key} = u.k) v"
        )


def totals(spelling: Spelling, table: Table) -> Totals:
    """The statements that change totals in place."""
    return (MysqlNamedTotals if table.inserts else MysqlTotals)(spelling, table)
