"""Statements of PostgreSQL."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from functools import cached_property
from typing import Any

from django_counters.measure import ConditionKind
from django_counters.stores.sql.dialects.claims import ClaimSql, Conditions
from django_counters.stores.sql.dialects.postgresql.functions import AHEAD
from django_counters.stores.sql.dialects.spelling import DELTAS, HORIZON, TOKENS, Spelling, Table
from django_counters.stores.sql.dialects.totals import (
    Fold,
    NamedTotals,
    Reads,
    Rights,
    SpreadStatements,
    Totals,
)

# Totals. Those of named counters change in functions.


# -- The statements of PostgreSQL that call functions, and those of claims.


class FunctionTotals(NamedTotals):
    """Changes totals of named counters by functions, which keep their plans."""

    add_many = "SELECT k, v FROM django_counters_add_many(%s::text[], %s::bigint[])"

    def _changing(self, comparison: str, by: str, limit: str, asks: bool, also: str) -> str:
        """Insert or add, where the present value allows it."""
        # The function knows no more than whether a change rises or falls.
        if asks and comparison != "=":
            return f"SELECT django_counters_add({by}, {limit}, %s)"
        return super()._changing(comparison, by, limit, asks, also)


class FunctionReads(Reads):
    """Reads named counters; one of them by a function."""

    one = "SELECT total, waits FROM django_counters_read(%s)"

    def __init__(self, spelling: Spelling, table: Table) -> None:
        super().__init__(spelling, table)
        self.keyed = 0


class Shards(SpreadStatements):
    """Adds to unlocked shards."""

    at_once = True

    @cached_property
    def add(self) -> str:
        """Add."""
        return f"SELECT v, n FROM django_counters_shard(%s, {self.cap}, %s, %s)"

    @cached_property
    def add_many(self) -> str:
        """Add to many."""
        call = f"django_counters_shard_many(%s::text[], %s::bigint[], {self.cap})"
        return f"SELECT k, v, n FROM {call}"

    def arrange(
        self,
        by: int,
        wanted: int | None,
        key: Hashable,
        address: tuple[Any, ...],  # noqa: ARG002 - the key says it
        floor: int | None = None,  # noqa: ARG002 - see `ShardRights`
    ) -> tuple[Any, ...]:
        """The parameters of ``add``."""
        return (by, wanted, key)


class SlotStatements(SpreadStatements):
    """Adds to unlocked slots."""

    @cached_property
    def add(self) -> str:
        """Add."""
        return self.under("")

    def under(self, condition: str) -> str:
        """Add, where a condition holds that is written as " AND …"."""
        table, address = self._table, address_of(self._table)
        total, (low, high) = table.value or "0", table.capacity
        source = f" FROM {table.name} WHERE {table.key} = %s{condition}" if table.value else ""
        slot = (
            f"django_counters_slot(%s, {self.cap}, {address}, {total}, "
            f"({low})::bigint, ({high})::bigint)"
        )
        return f"SELECT {total} + django_counters_slots({address}) + %s, {slot}{source}"

    def arrange(
        self,
        by: int,
        wanted: int | None,  # noqa: ARG002 - any will do
        key: Hashable,
        address: tuple[Any, ...],
        floor: int | None = None,  # noqa: ARG002 - see `SlotRights`
    ) -> tuple[Any, ...]:
        """The parameters of ``add``."""
        if self._table.value:
            return (address[0], by, by, address[0], key)
        return (*address[:2], by, by, *address[:2])


class GroupedFold(Fold):
    """Folds what is pending."""

    @cached_property
    def take(self) -> str:
        """Take away unlocked rows; their sums."""
        gone = self._taken(f"{self._key} AS k, {self._table.pending.value} AS d")
        return f"WITH gone AS ({gone}) SELECT k, SUM(d), COUNT(*) FROM gone GROUP BY k ORDER BY k"


def address_of(table: Table) -> str:
    """The slots of the record of a row; without a column, those of a parameter.

    The name stands in the text, and the record is that of the row: each parameter takes the driver
    some time. Parameters: the content type, and the record where there is no column.
    """
    assert table.pending.record is not None
    name = table.pending.record[1].replace("'", "''").replace("%", "%%").replace("\\", "\\\\")
    record = f"{table.key}::text" if table.value else "%s"
    return f"%s, {record}, E'{name}'"


def chosen(query: str, tables: Sequence[Table]) -> str:
    """Hold the rows in the order of the query, then look at what they have now, then add.

    A row that another transaction has just changed is held as that one left it, if the query still
    selects it. The amount pending elsewhere is that of before.
    """
    name, key, columns = tables[0].name, tables[0].key, [table.value for table in tables]
    broken = " OR ".join(
        f"{table.value} NOT BETWEEN %s AND %s OR django_counters_waits({address_of(table)})"
        for table in tables
    )
    return (
        f"WITH django_counters_held ({', '.join((key, *columns))}) AS MATERIALIZED "
        f"({query} FOR NO KEY UPDATE), django_counters_broken AS "
        f"(SELECT FROM django_counters_held WHERE {broken} LIMIT 1), django_counters_changed AS "
        f"(UPDATE {name} AS t SET {', '.join(f'{c} = t.{c} + %s' for c in columns)} "
        f"FROM django_counters_held h WHERE t.{key} = h.{key} "
        "AND NOT EXISTS (SELECT FROM django_counters_broken) "
        f"RETURNING {', '.join(f't.{c}' for c in (key, *columns))}) "
        "SELECT * FROM django_counters_changed UNION ALL "
        f"SELECT {', '.join(['NULL'] * (len(tables) + 1))} FROM django_counters_broken"
    )


# Rows with a floor.


class ShardRights(Rights):
    """Takes from shards."""

    @cached_property
    def take(self) -> str:
        """Take away."""
        return f"SELECT v, n FROM django_counters_take(%s, {self._spread.cap}, %s, %s)"

    def arrange(
        self,
        by: int,
        floor: int,
        key: Hashable,
        address: tuple[Any, ...],  # noqa: ARG002 - the key says it
    ) -> tuple[Any, ...]:
        """The parameters of ``take``."""
        return (-by, floor, key)


class SlotRights(Rights):
    """Takes from slots."""

    @cached_property
    def take(self) -> str:
        """Take away."""
        table, address = self._table, address_of(self._table)
        slot = f"django_counters_take_slot(%s, {self._spread.cap}, %s, {address}, {table.value})"
        value = f"{table.value} + django_counters_slots({address}) + %s"
        return f"SELECT {value}, {slot} FROM {table.name} WHERE {table.key} = %s"

    def arrange(
        self, by: int, floor: int, key: Hashable, address: tuple[Any, ...]
    ) -> tuple[Any, ...]:
        """The parameters of ``take``."""
        return (address[0], by, -by, floor, address[0], key)


# Claims: the second to insert a name waits for the first one to commit or not.

_WINDOW = f"COALESCE((SELECT token_window FROM {HORIZON} WHERE id = 1), INTERVAL '48 hours')"


class PostgresClaims(ClaimSql):
    """Claims of PostgreSQL."""

    # A statement of its own, so that it sees the entry of a transaction that the claim has waited
    # for. Whoever appends an entry claims its token first; see `ledger.postgresql`.
    take_back = (
        f"DELETE FROM {TOKENS} WHERE digest = %s::bytea AND EXISTS (SELECT FROM {DELTAS} d "
        "WHERE d.token = %s::uuid AND d.created_at = %s::timestamptz) RETURNING 1"
    )
    try_alone = "SELECT pg_try_advisory_xact_lock(hashtextextended(%s, 0))"
    fresh = (
        f"(token IS NULL OR at > CLOCK_TIMESTAMP() - {_WINDOW} "
        f"AND at < CLOCK_TIMESTAMP() + {AHEAD})"
    )

    def _typed(self, kind: str) -> str:
        return f"%s::{kind}"


# -- Conditions in PostgreSQL: one statement makes the row and the change.

_CHANGE = "django_counters_change"


class PostgresConditions(Conditions):
    """Counts in functions where it can: they keep their plans."""

    def totals(
        self, kind: ConditionKind, sql: Totals, table: Table, one: str, by: int, *, alone: bool
    ) -> str | None:
        if not kind.claim:
            return None
        row = ", ".join("%s" for _ in kind.columns)
        if kind.whole and isinstance(sql, NamedTotals):
            return (
                f"SELECT {kind.whole}_text({row}, {by}, %s)"
                if alone
                else f"SELECT v, p FROM {kind.whole}({row}, {by}, %s)"
            )
        if isinstance(sql, NamedTotals):
            change, held = f"SELECT django_counters_add({by}, %s, %s) WHERE {_counts(kind)}", ""
        else:
            change, held = sql.by_one(by, _counts(kind)), self.hold(table) if by < 0 else ""
        return _together(kind, table, change, ("v",), one, by, held)

    def spread(
        self,
        kind: ConditionKind,
        sql: SpreadStatements,
        table: Table,
        one: str,
        by: int,
        *,
        alone: bool,
    ) -> str | None:
        if not kind.claim:
            return None
        row = ", ".join("%s" for _ in kind.columns)
        if isinstance(sql, Shards) and kind.whole:
            call = f"{kind.whole}_shard{'_text' if alone else ''}({row}, {by}, {sql.cap}, %s)"
            return f"SELECT {call}" if alone else f"SELECT v, n, p FROM {call}"
        if isinstance(sql, Shards):
            change, held = f"{sql.add} WHERE {_counts(kind)}", ""
        elif isinstance(sql, SlotStatements):
            change, held = sql.under(f" AND {_counts(kind)}"), self.hold(table)
        else:
            return None
        return _together(kind, table, change, ("v", "n"), one, by, held)


def _name(kind: ConditionKind) -> str:
    return f"django_counters_{kind.name}"


def _counts(kind: ConditionKind) -> str:
    """Nothing is looked for where it does not hold: the server asks it once, before all else."""
    return f"(SELECT {kind.columns[-1].letter} FROM {_name(kind)}) IS NOT NULL"


def _together(
    kind: ConditionKind,
    table: Table,
    change: str,
    columns: tuple[str, ...],
    one: str,
    by: int,
    held: str,
) -> str:
    """A row, then a change, then the present value if nothing was changed.

    A change that is refused leaves the row as it was.
    """
    letters = [column.letter for column in kind.columns]
    row, made, last = ", ".join(letters), letters[-1], columns[-1]
    values = ", ".join(f"%s::{column.type}" for column in kind.columns)
    value = "w.v" if last == "v" else f"CASE WHEN w.{last} IS NOT NULL THEN w.v END"
    given = ", ".join((value, *(f"w.{column}" for column in columns[1:])))
    # A record without a total is missing. A named counter may have shards alone.
    total = "o.total" if table.pending.record else "COALESCE(o.total, 0)"
    present = f"SELECT {total} + COALESCE(o.waits, 0) FROM ({one}) o (total, waits)"
    undone = f"{kind.unclaim}({', '.join(f'c.{letter}' for letter in letters)}, {by})"
    return (
        f"WITH {_name(kind)} ({row}) AS MATERIALIZED (SELECT {', '.join(letters[:-1])}, "
        f"{kind.claim}({row}, {by}) FROM (VALUES ({values})) g ({row})"
        f"{f', ({held}) h' if held else ''}), "
        f"{_CHANGE} ({', '.join(columns)}) AS MATERIALIZED ({change}) "
        f"SELECT {given}, CASE WHEN c.{made} IS NULL THEN ({present}) "
        f"WHEN w.{last} IS NULL THEN {undone} END FROM {_name(kind)} c "
        f"LEFT JOIN {_CHANGE} w ON true"
    )
