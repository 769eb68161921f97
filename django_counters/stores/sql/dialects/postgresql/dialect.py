"""PostgreSQL as a dialect."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from django_counters.stores.sql.dialects.base import Dialect
from django_counters.stores.sql.dialects.landing_postgresql import LANDING
from django_counters.stores.sql.dialects.postgresql.audit import PostgresAudit
from django_counters.stores.sql.dialects.postgresql.cells import PostgresCells
from django_counters.stores.sql.dialects.postgresql.claims import PostgresClaims
from django_counters.stores.sql.dialects.postgresql.functions import install
from django_counters.stores.sql.dialects.postgresql.ledger import LEDGER
from django_counters.stores.sql.dialects.tables import TOTAL, Table
from django_counters.stores.sql.dialects.totals import (
    Fold,
    Reads,
    Spread,
    Totals,
    reads,
    scoped,
    subject,
    updates,
    waiting,
)

NOW = "STATEMENT_TIMESTAMP()"


def _totals(table: Table) -> Totals:
    if not table.inserts:
        return updates(table, NOW, f"django_counters_waits({_address(table)})")
    last = table.capacity[1] - 1
    return Totals(
        unit=f"SELECT django_counters_add(1, {last}, %s)",
        rising="SELECT django_counters_add(%s, %s, %s)",
        falling="SELECT django_counters_add(%s, %s, %s)",
        settling=_settling(table),
        addressed=False,
        add_many="SELECT k, v FROM django_counters_add_many(%s::text[], %s::bigint[])",
    )


def _settling(table: Table) -> str:
    """Insert or add, whatever waits elsewhere. Parameters: by, limit, key."""
    return (
        "WITH given (by, bound, k) AS (VALUES (%s::bigint, %s::bigint, %s::text)) "
        f"INSERT INTO {table.name} AS t ({table.key}, {table.value}, {table.touched}) "
        f"SELECT k, by, {NOW} FROM given "
        f"ON CONFLICT ({table.key}) DO UPDATE "
        f"SET {table.value} = t.{table.value} + EXCLUDED.{table.value}, "
        f"{table.outside} = t.{table.outside} + EXCLUDED.{table.value}, "
        f"{table.touched} = EXCLUDED.{table.touched} "
        f"WHERE t.{table.value} <= (SELECT bound FROM given) RETURNING {table.value}"
    )


def _reads(table: Table) -> Reads:
    both = reads(table, "= ANY(%s)", "SELECT k, NULL, waits FROM django_counters_tails(%s)")
    if table.pending.record:
        return both
    return replace(both, one="SELECT total, waits FROM django_counters_read(%s)", keyed=0)


def _spread(table: Table, cap: int) -> Spread:
    if table.pending.record is None:
        return Spread(
            add=f"SELECT v, n FROM django_counters_shard(%s, {cap}, %s, %s)",
            arrange=lambda by, wanted, key, address: (by, wanted, key),  # noqa: ARG005
            add_many=(
                f"SELECT k, v, n FROM django_counters_shard_many(%s::text[], %s::bigint[], {cap})"
            ),
        )
    low, high = table.capacity
    address = _address(table)
    total = table.value or "0"
    source = f" FROM {table.name} WHERE {table.key} = %s" if table.value else ""
    slot = f"django_counters_slot(%s, {cap}, {address}, {total}, ({low})::bigint, ({high})::bigint)"
    return Spread(
        add=f"SELECT {total} + django_counters_slots({address}) + %s, {slot}{source}",
        arrange=(lambda by, wanted, key, address: (address[0], by, by, address[0], key))  # noqa: ARG005
        if table.value
        else (lambda by, wanted, key, address: (*address[:2], by, by, *address[:2])),  # noqa: ARG005
        add_many="",
    )


def _address(table: Table) -> str:
    """The slots of the record of a row; without a column, those of a parameter.

    The name stands in the text, and the record is that of the row: each parameter takes the driver
    some time. Parameters: the content type, and the record where there is no column.
    """
    assert table.pending.record is not None
    name = table.pending.record[1].replace("'", "''").replace("%", "%%").replace("\\", "\\\\")
    record = f"{table.key}::text" if table.value else "%s"
    return f"%s, {record}, E'{name}'"


def _chosen(query: str, tables: Sequence[Table]) -> str:
    """Hold the rows in the order of the query, then look at what they have now, then add.

    A row that somebody else has just changed is held as he left it, if the query still selects it.
    What waits elsewhere is that of before.
    """
    name, key, columns = tables[0].name, tables[0].key, [table.value for table in tables]
    broken = " OR ".join(
        f"{table.value} NOT BETWEEN %s AND %s OR django_counters_waits({_address(table)})"
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


def _fold(table: Table, key_type: str) -> Fold:
    """All steps leave alone what somebody holds, so that a rollup waits for nobody."""
    return Fold(
        waiting=waiting(table),
        ensure=_ensure(table) if table.inserts else "",
        hold=_hold(table) if table.inserts else LANDING.hold(table, key_type),
        lock=_lock(table, key_type),
        take=_taken(table),
        credit=_credit(table, key_type),
        orphans=_orphans(table, key_type) if table.value and table.pending.record else "",
    )


def _lock(table: Table, key_type: str) -> str:
    """Lock totals that nobody holds. Parameters: the scope where there is no column, keys."""
    skips = "FOR NO KEY UPDATE SKIP LOCKED"
    if table.value:
        return (
            f"SELECT {table.key}, {table.value} FROM {table.name} "
            f"WHERE {table.key} = ANY(%s::{key_type}[]) ORDER BY {table.key} {skips}"
        )
    pending, (kind, record, name) = table.pending, table.pending.owner
    return (
        f"SELECT {record}, {pending.value} FROM {pending.name} WHERE {kind} = %s AND {name} = %s "
        f"AND {record} = ANY(%s::text[]) AND {pending.number} = {TOTAL} ORDER BY {record} {skips}"
    )


def _hold(table: Table) -> str:
    """Hold totals, and make those that are missing, in one pass.

    Whoever made some first, and held others then, could wait in a circle. An update that never
    takes place holds the row, and writes nothing.
    """
    columns = table.key if table.value else ", ".join((*table.pending.owner, table.pending.number))
    value = table.value or table.pending.value
    return _ensure(table, f"({columns}) DO UPDATE SET {value} = t.{value} WHERE false")


def _ensure(table: Table, present: str = "DO NOTHING") -> str:
    """Make the totals that are missing. Parameters: the scope where there is no column, keys."""
    if not table.value:
        pending, (kind, record, name) = table.pending, table.pending.owner
        return (
            f"INSERT INTO {pending.name} AS t ({kind}, {name}, {record}, {pending.number}, "
            f"{pending.value}) SELECT %s, %s, k, {TOTAL}, 0 FROM unnest(%s::text[]) AS u (k) "
            f'ORDER BY k COLLATE "C" ON CONFLICT {present} RETURNING {record}'
        )
    return (
        f"INSERT INTO {table.name} AS t ({table.key}, {table.value}, {table.touched}) "
        f'SELECT k, 0, {NOW} FROM unnest(%s::text[]) AS u (k) ORDER BY k COLLATE "C" '
        f"ON CONFLICT {present} RETURNING {table.key}"
    )


def _taken(table: Table) -> str:
    """Take away rows that nobody holds; their sums. Parameters: scope, keys, remainder."""
    pending, key = table.pending, subject(table)
    return (
        f"WITH gone AS (DELETE FROM {pending.name} WHERE ctid = ANY(ARRAY("
        f"SELECT ctid FROM {pending.name} WHERE {scoped(table)} AND {key} = ANY(%s::text[]) "
        f"AND ABS({pending.number}) %% 2 = %s FOR UPDATE SKIP LOCKED)) "
        f"RETURNING {key} AS k, {pending.value} AS d) "
        "SELECT k, SUM(d), COUNT(*) FROM gone GROUP BY k ORDER BY k"
    )


def _credit(table: Table, key_type: str) -> str:
    """Add sums to totals. Parameters: the scope where there is no column, keys, sums."""
    if table.value:
        touched = f", {table.touched} = {NOW}" if table.touched else ""
        if table.outside:
            touched += f", {table.outside} = t.{table.outside} + u.d"
        return (
            f"UPDATE {table.name} t SET {table.value} = t.{table.value} + u.d{touched} "
            f"FROM unnest(%s::{key_type}[], %s::bigint[]) AS u (k, d) "
            f"WHERE t.{table.key} = u.k RETURNING 1"
        )
    pending, (kind, record, name) = table.pending, table.pending.owner
    return (
        f"UPDATE {pending.name} t SET {pending.value} = t.{pending.value} + u.d "
        f"FROM (VALUES (%s, %s)) AS o (kind, name), "
        f"unnest(%s::text[], %s::bigint[]) AS u (k, d) WHERE t.{kind} = o.kind "
        f"AND t.{name} = o.name AND t.{record} = u.k AND t.{pending.number} = {TOTAL} RETURNING 1"
    )


def _orphans(table: Table, key_type: str) -> str:
    """What waits for records that are no more. Parameters: the scope, keys, keys."""
    pending, key = table.pending, subject(table)
    return (
        f"DELETE FROM {pending.name} WHERE ctid = ANY(ARRAY("
        f"SELECT p.ctid FROM {pending.name} p WHERE {scoped(table)} AND p.{key} = ANY(%s::text[]) "
        f"AND NOT EXISTS (SELECT FROM {table.name} t WHERE t.{table.key} = ANY(%s::{key_type}[]) "
        f"AND t.{table.key}::text = p.{key}) FOR UPDATE OF p SKIP LOCKED)) "
        f"RETURNING {pending.value}"
    )


class PostgreSQL(Dialect):
    """PostgreSQL 14 and newer."""

    appends_in_one_statement = True
    changes_chosen = True
    knows_time_zones = True
    knows_transaction_horizon = True
    limits_time = True
    partitions = True

    OVERFLOWED = ("22003",)
    TIMED_OUT = ("55P03",)
    # No lock in time, cancelled, not serializable, deadlock.
    BUSY = ("55P03", "57014", "40001", "40P01")
    READ_ONLY = ("25006",)
    LOST = ("08", "57P")
    CANCELLED = ("57014",)
    UNSERIALIZABLE = ("40001", "40P01")

    now = "STATEMENT_TIMESTAMP()"
    microseconds = "(EXTRACT(EPOCH FROM CLOCK_TIMESTAMP()) * 1000000)::bigint"

    ledger = LEDGER
    landing = LANDING
    claims = PostgresClaims
    audit = PostgresAudit()

    def __init__(self) -> None:
        super().__init__()
        self.cells = PostgresCells(self)

    def install(self, using: str) -> None:
        """Make the functions of this version."""
        install(using)

    def refused_by(self, error: Exception) -> str | None:
        """The constraint that refused a row; empty where no partition takes it."""
        if self.code(error) != "23514":
            return None
        details = getattr(error.__cause__, "diag", None)
        return getattr(details, "constraint_name", None) or ""

    def patience(self, setting: str) -> str:
        """How long a statement waits, or may take."""
        return f"SELECT current_setting('{setting}')"

    def hurry(self, setting: str) -> str:
        """Wait no longer within the transaction."""
        return f"SELECT set_config('{setting}', %s, true)"

    def ago(self) -> str:
        """The moment so many seconds before now."""
        return f"{self.now} - make_interval(secs => %s)"

    def among(self, kind: str = "", given: str = "%s") -> str:
        """The condition that a column is one of many."""
        return f"= ANY({given}::{kind}[])" if kind else f"= ANY({given})"

    def rows(self, **columns: str) -> str:
        """The rows of parameters: an array for each column."""
        arrays = ", ".join(f"%s::{kind}[]" for kind in columns.values())
        return f"unnest({arrays}) AS u ({', '.join(columns)})"

    def delete_some(self, table: str, which: str, returning: str = "1") -> str:
        """Delete some rows that nobody holds."""
        return (
            f"DELETE FROM {table} WHERE ctid = ANY(ARRAY("
            f"SELECT ctid FROM {table} {which} FOR UPDATE SKIP LOCKED)) RETURNING {returning}"
        )

    def keys(self, keys: Sequence[object]) -> list[object]:
        """One array."""
        return list(keys)

    def columns(self, rows: Sequence[Sequence[Any]]) -> tuple[list[Any], ...]:
        """An array for each column."""
        return tuple(list(column) for column in zip(*rows, strict=True))

    def sums(self, keys: Sequence[object], sums: Sequence[int]) -> tuple[Any, ...]:
        """Two arrays."""
        return keys, sums

    def totals(self, table: Table) -> Totals:
        return _totals(table)

    def reads(self, table: Table) -> Reads:
        return _reads(table)

    def spread(self, table: Table, cap: int) -> Spread:
        return _spread(table, cap)

    def fold(self, table: Table, key_type: str) -> Fold:
        return _fold(table, key_type)

    def chosen(self, query: str, tables: Sequence[Table]) -> str:
        return _chosen(query, tables)
