"""SQLite as a dialect."""

from __future__ import annotations

import json
from collections.abc import Hashable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from django_counters.stores.sql.dialects.base import Dialect
from django_counters.stores.sql.dialects.landing_sqlite import LANDING
from django_counters.stores.sql.dialects.sqlite.audit import SqliteAudit
from django_counters.stores.sql.dialects.sqlite.claims import SqliteClaims
from django_counters.stores.sql.dialects.sqlite.ledger import LEDGER, NOW, tail_of, tails
from django_counters.stores.sql.dialects.tables import TOTAL, Table
from django_counters.stores.sql.dialects.totals import (
    Fold,
    Reads,
    Spread,
    Totals,
    owned,
    reads,
    scoped,
    subject,
    updates,
    waiting,
)

LOW, HIGH = "(-9223372036854775807 - 1)", "9223372036854775807"


def _totals(table: Table) -> Totals:
    if not table.inserts:
        return updates(table, NOW, _waits(table))
    unasked = "SELECT k, by FROM given"
    return Totals(
        unit=_upsert(table, "<=", "1", str(table.capacity[1] - 1), _asking(table, "<=")),
        rising=_upsert(table, "<=", "%s", "%s", _asking(table, "<=")),
        falling=_upsert(table, ">=", "%s", "%s", _asking(table, ">=")),
        settling=_upsert(table, "<=", "%s", "%s", f"{unasked} WHERE true"),
        addressed=False,
        add_many=_add_many(table),
    )


def _waits(table: Table) -> str:
    """Whether something is pending for the record of a row. Parameters: the content type."""
    pending, (kind, record, name) = table.pending, table.pending.owner
    assert pending.record is not None
    counter = pending.record[1].replace("'", "''").replace("%", "%%")
    return (
        f"EXISTS (SELECT 1 FROM {pending.name} w WHERE w.{kind} = %s AND w.{name} = '{counter}' "
        f"AND w.{record} = CAST({table.name}.{table.key} AS TEXT))"
    )


def _upsert(table: Table, comparison: str, by: str, limit: str, source: str) -> str:
    """Insert or add, where the present value allows it. Parameters: by, limit, key."""
    return (
        f"WITH given (by, bound, k) AS (VALUES ({by}, {limit}, %s)) "
        f"INSERT INTO {table.name} AS t ({table.key}, {table.value}, {table.touched}) "
        f"SELECT s.k, s.by, {NOW} FROM ({source}) s WHERE true ON CONFLICT ({table.key}) DO UPDATE "
        f"SET {table.value} = t.{table.value} + EXCLUDED.{table.value}, "
        f"{table.outside} = t.{table.outside} + EXCLUDED.{table.value}, "
        f"{table.touched} = EXCLUDED.{table.touched} "
        f"WHERE t.{table.value} {comparison} (SELECT bound FROM given) "
        f"AND {_fits('t.' + table.value, 'EXCLUDED.' + table.value)} RETURNING {table.value}"
    )


def _asking(table: Table, comparison: str) -> str:
    """A row is inserted only with a value that its bounds admit, and only if nothing waits."""
    (key,) = table.pending.owner
    return (
        f"SELECT k, by FROM given WHERE (0 {comparison} bound OR "
        f"EXISTS (SELECT 1 FROM {table.name} WHERE {table.key} = given.k)) AND "
        f"NOT EXISTS (SELECT 1 FROM {table.pending.name} WHERE {key} = given.k) "
        f"AND COALESCE(({tail_of('given.k')}), 0) = 0"
    )


def _fits(present: str, by: str) -> str:
    return (
        f"(({by} >= 0 AND {present} <= {HIGH} - {by}) OR ({by} < 0 AND {present} >= {LOW} - {by}))"
    )


def _add_many(table: Table) -> str:
    """Insert or add many. Parameters: deltas as one JSON object.

    SQLite turns an integer that overflows into a float without a word. The sum is therefore NULL
    where it would leave the range, and the column refuses NULL, which takes the statement back.
    """
    (key,) = table.pending.owner
    entries = tail_of(f"{table.name}.{table.key}")
    waits = (
        f"SELECT SUM(w.{table.pending.value}) + COALESCE(({entries}), 0)"
        f" FROM (SELECT 0 AS {table.pending.value} UNION ALL SELECT {table.pending.value} "
        f"FROM {table.pending.name} WHERE {key} = {table.name}.{table.key}) w"
    )
    # The name of the table is known in RETURNING, its alias in the rest.
    whole = (
        f"t.{table.value} + EXCLUDED.{table.value} + COALESCE(({tail_of(f't.{table.key}')}), 0) "
        f"+ COALESCE((SELECT SUM(w.{table.pending.value})"
    )
    whole += f" FROM {table.pending.name} w WHERE w.{key} = t.{table.key}), 0)"
    fits = f"{_fits(f't.{table.value}', f'EXCLUDED.{table.value}')} "
    fits += f"AND TYPEOF({whole}) = 'integer'"
    return (
        f"INSERT INTO {table.name} AS t ({table.key}, {table.value}, {table.touched}) "
        f"SELECT j.key, j.value, {NOW} FROM json_each(%s) AS j WHERE true "
        f"ON CONFLICT ({table.key}) DO UPDATE SET "
        f"{table.value} = CASE WHEN {fits} THEN t.{table.value} + EXCLUDED.{table.value} END, "
        f"{table.outside} = t.{table.outside} + EXCLUDED.{table.value}, "
        f"{table.touched} = EXCLUDED.{table.touched} "
        f"RETURNING {table.key}, {table.value} + COALESCE(({waits}), 0)"
    )


def _reads(table: Table) -> Reads:
    among = "IN (SELECT value FROM json_each(%s))"
    return reads(table, among, tails(among), tail_of("%s") if table.outside else "")


def _spread(table: Table, cap: int) -> Spread:  # noqa: ARG001 - one row is enough
    pending = table.pending
    low, high = table.capacity
    columns = ", ".join((*pending.owner, pending.number))
    if table.value:
        source = f"SELECT {table.value} AS total FROM {table.name} WHERE {table.key} = %s"
        if table.inserts:
            waits = tail_of(f"{table.name}.{table.key}")
            source = source.replace(" AS total", f" + COALESCE(({waits}), 0) AS total", 1)
            source = f"SELECT COALESCE(({source}), 0) AS total"
    else:
        source = "SELECT 0 AS total"
    others = f"SELECT COALESCE(SUM({pending.value}), 0) FROM {pending.name} WHERE {owned(table)}"
    marks = ", ".join("%s" for _ in pending.owner)
    # The row itself is what RETURNING sees; the other rows are as they were.
    add = (
        f"INSERT INTO {pending.name} AS p ({columns}, {pending.value}) "
        f"SELECT {marks}, COALESCE(%s, 0), %s FROM ({source}) t "
        f"WHERE t.total + ({others}) BETWEEN %s AND %s ON CONFLICT ({columns}) DO UPDATE "
        f"SET {pending.value} = p.{pending.value} + EXCLUDED.{pending.value} "
        f"WHERE {_fits('p.' + pending.value, 'EXCLUDED.' + pending.value)} RETURNING "
        f"{pending.value} + ({others} AND {pending.number} <> COALESCE(%s, 0)) + "
        f"COALESCE(({source.replace('AS total', '')}), 0)"
    )

    def arrange(
        by: int, wanted: int | None, key: Hashable, address: tuple[Any, ...]
    ) -> tuple[Any, ...]:
        limits = (low - min(by, 0), high - max(by, 0))
        found = (key,) if table.value else ()
        return (*address, wanted, by, *found, *address, *limits, *address, wanted, *found)

    return Spread(add=add, arrange=arrange, add_many="")


def _fold(table: Table, key_type: str) -> Fold:
    pending, key = table.pending, subject(table)
    among = "IN (SELECT value FROM json_each(%s))"
    return Fold(
        waiting=waiting(table),
        ensure=_ensure(table) if table.inserts else "",
        # There is one writer, and an adjustment is it from its first statement.
        hold=_ensure(table) if table.inserts else LANDING.hold(table, key_type),
        lock=f"SELECT {table.key}, {table.value} FROM {table.name} WHERE {table.key} {among}"
        if table.value
        else (
            f"SELECT {key}, {pending.value} FROM {pending.name} WHERE {pending.owner[0]} = %s "
            f"AND {pending.owner[2]} = %s AND {key} {among} AND {pending.number} = {TOTAL}"
        ),
        take=(
            f"DELETE FROM {pending.name} WHERE {scoped(table)} AND {key} {among} "
            f"AND ABS({pending.number}) %% 2 = %s RETURNING {key}, {pending.value}, 1"
        ),
        credit=_credit(table),
        orphans=(
            f"DELETE FROM {pending.name} AS p WHERE {scoped(table)} AND {key} {among} "
            f"AND NOT EXISTS (SELECT 1 FROM {table.name} t WHERE t.{table.key} {among} "
            f"AND CAST(t.{table.key} AS TEXT) = p.{key}) RETURNING {pending.value}"
        )
        if table.value and pending.record
        else "",
    )


def _credit(table: Table) -> str:
    """Add sums to totals. Parameters: the scope where there is no column, one JSON object."""
    if table.value:
        touched = f", {table.touched} = {NOW}" if table.touched else ""
        if table.outside:
            touched += f", {table.outside} = {table.name}.{table.outside} + j.value"
        return (
            f"UPDATE {table.name} SET "
            f"{table.value} = {table.name}.{table.value} + j.value{touched} "
            f"FROM json_each(%s) AS j WHERE CAST({table.name}.{table.key} AS TEXT) = j.key "
            "RETURNING 1"
        )
    pending, (kind, record, name) = table.pending, table.pending.owner
    return (
        f"UPDATE {pending.name} SET {pending.value} = {pending.name}.{pending.value} + j.value "
        f"FROM (SELECT %s AS kind, %s AS name) AS o, json_each(%s) AS j "
        f"WHERE {pending.name}.{kind} = o.kind AND {pending.name}.{name} = o.name "
        f"AND {pending.name}.{record} = j.key AND {pending.number} = {TOTAL} RETURNING 1"
    )


def _ensure(table: Table) -> str:
    pending = table.pending
    if table.value:
        return (
            f"INSERT INTO {table.name} ({table.key}, {table.value}, {table.touched}) "
            f"SELECT value, 0, {NOW} FROM json_each(%s) WHERE true ON CONFLICT DO NOTHING "
            f"RETURNING {table.key}"
        )
    kind, record, name = pending.owner
    return (
        f"INSERT INTO {pending.name} ({kind}, {name}, {record}, {pending.number}, {pending.value}) "
        f"SELECT %s, %s, value, {TOTAL}, 0 FROM json_each(%s) WHERE true ON CONFLICT DO NOTHING "
        f"RETURNING {record}"
    )


class SQLite(Dialect):
    """SQLite 3.35 and newer: one writer at a time, so what others hold is the whole database."""

    has_server = False
    several_writers = False

    OVERFLOWED = ("SQLITE_CONSTRAINT_NOTNULL",)
    BUSY = ("SQLITE_BUSY", "SQLITE_LOCKED")
    READ_ONLY = ("SQLITE_READONLY",)

    now = NOW
    # It knows milliseconds, no more.
    microseconds = "CAST(ROUND((JULIANDAY('NOW') - 2440587.5) * 86400000) AS INTEGER) * 1000"

    ledger = LEDGER
    landing = LANDING
    claims = SqliteClaims
    audit = SqliteAudit()

    def code(self, error: Exception) -> str:
        """The name of an error."""
        return str(getattr(error.__cause__, "sqlite_errorname", ""))

    def typed(self, given: str, kind: str) -> str:  # noqa: ARG002 - values have types
        """A parameter as it is."""
        return given

    def namespace(self, key: str) -> str:
        """What is before the first colon of a key."""
        return f"SUBSTR({key}, 1, MAX(INSTR({key}, ':') - 1, 0))"

    def added(self, present: str, by: str) -> str:
        """A sum, or NULL: what does not fit would become a float."""
        return f"CASE WHEN {_fits(present, by)} THEN {present} + {by} END"

    def ago(self) -> str:
        """The moment so many seconds before now."""
        return "STRFTIME('%%Y-%%m-%%d %%H:%%M:%%f', 'NOW', PRINTF('-%%.3f seconds', %s))"

    def among(self, kind: str = "", given: str = "%s") -> str:  # noqa: ARG002 - values have types
        """The condition that a column is one of many."""
        return f"IN (SELECT value FROM json_each({given}))"

    def rows(self, **columns: str) -> str:
        """The rows of one parameter."""
        each = (f"json_extract(value, '$[{n}]') AS {name}" for n, name in enumerate(columns))
        return f"(SELECT {', '.join(each)} FROM json_each(%s)) AS u"

    def delete_some(self, table: str, which: str, returning: str = "1") -> str:
        """Delete some rows."""
        page = f"SELECT rowid FROM {table} {which}"
        return f"DELETE FROM {table} WHERE rowid IN ({page}) RETURNING {returning}"

    def keys(self, keys: Sequence[object]) -> str:
        """One array of JSON."""
        return json.dumps([key if isinstance(key, int) else str(key) for key in keys])

    def columns(self, rows: Sequence[Sequence[Any]]) -> tuple[str]:
        """An array of rows, as JSON."""
        return (json.dumps(rows, default=str),)

    def moment(self, moment: datetime) -> str:
        """As columns hold it: in UTC, without its zone."""
        return str(moment.astimezone(UTC).replace(tzinfo=None))

    def token(self, token: UUID) -> str:
        """As columns hold it."""
        return token.hex

    def batch(self, sums: Mapping[Hashable, int]) -> Sequence[Any]:
        return (json.dumps(sums),)

    def sums(self, keys: Sequence[object], sums: Sequence[int]) -> tuple[str]:
        return (json.dumps(dict(zip(map(str, keys), sums, strict=True))),)

    def totals(self, table: Table) -> Totals:
        return _totals(table)

    def reads(self, table: Table) -> Reads:
        return _reads(table)

    def spread(self, table: Table, cap: int) -> Spread:
        return _spread(table, cap)

    def fold(self, table: Table, key_type: str) -> Fold:
        return _fold(table, key_type)
