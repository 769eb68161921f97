"""PostgreSQL 14 and newer."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from django.db import InterfaceError, OperationalError

from django_counters.stores.sql.dialects.audit_postgresql import AUDIT
from django_counters.stores.sql.dialects.base import (
    Dialect,
    Fold,
    Reads,
    Spread,
    Totals,
    left,
    namespaces,
    reads,
    scoped,
    subject,
    updates,
    waiting,
)
from django_counters.stores.sql.dialects.cells import Cells, upsert
from django_counters.stores.sql.dialects.cells import forget as forget_cells
from django_counters.stores.sql.dialects.functions import install
from django_counters.stores.sql.dialects.hottest import hottest
from django_counters.stores.sql.dialects.landing_postgresql import LANDING
from django_counters.stores.sql.dialects.ledger_postgresql import LEDGER
from django_counters.stores.sql.dialects.limits import LIMITS, Limits
from django_counters.stores.sql.dialects.limits import ahead as bucket_ahead
from django_counters.stores.sql.dialects.limits import page as buckets
from django_counters.stores.sql.dialects.limits import take as take_from
from django_counters.stores.sql.dialects.samples import SAMPLES, Samples, page, take, within
from django_counters.stores.sql.dialects.tables import TOTAL, Table

NOW = "STATEMENT_TIMESTAMP()"

NAMESPACE = "CASE WHEN POSITION(':' IN {key}) > 0 THEN SPLIT_PART({key}, ':', 1) ELSE '' END"


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


def _beside(change: str, columns: Sequence[str]) -> str:
    """A change and its cells. The change comes first, for the cells are made from its rows."""
    shard = "c.n" if "n" in columns else "0"
    same = " AND u.k = c.k" if "k" in columns else ""
    counted = " AND ".join(f"c.{column} IS NOT NULL" for column in columns)
    return (
        f"WITH django_counters_change ({', '.join(columns)}) AS MATERIALIZED ({change}), "
        "django_counters_cells AS ("
        + upsert(
            f"SELECT u.m, u.k, u.p, u.s, u.t, {shard}, u.d FROM django_counters_change c, {_GIVEN} "
            f"WHERE {counted}{same}"
        )
        + ") SELECT * FROM django_counters_change"
    )


def _after(change: str, columns: Sequence[str]) -> str:
    """The same for one counter: a function keeps its plan, and needs few parameters."""
    shard = "c.n" if "n" in columns else "0"
    call = f"django_counters_cells({{}}, {shard}, %s, %s, %s, %s, %s, %s)"
    if change.startswith("SELECT django_counters_add("):
        # To plan what is one expression takes less time.
        return "SELECT " + call.format(change.removeprefix("SELECT "))
    values = (call.format("c.v"), *(f"c.{column}" for column in columns[1:]))
    given = f"WITH c ({', '.join(columns)}) AS MATERIALIZED ({change})"
    return f"{given} SELECT {', '.join(values)} FROM c"


def _arrange(rows: Sequence[Sequence[Any]]) -> tuple[str, ...]:
    """Arrays as texts: the driver takes longer for each value of a list."""
    measures, keys, periods, starts, tags, shards, values = zip(*rows, strict=True)
    known = {start: str(start) for start in set(starts)}
    moments = [known[start] for start in starts]
    return (
        *(_array(measures), _texts(keys), _array(periods), _array(moments)),
        *(_texts(tags), _array(shards), _array(values)),
    )


def _array(values: Iterable[object]) -> str:
    """An array of what needs no quotes."""
    return f"{{{','.join(map(str, values))}}}"


def _texts(values: Iterable[str]) -> str:
    quoted = [value.replace("\\", "\\\\").replace('"', '\\"') for value in values]
    joined = '","'.join(quoted)
    return f'{{"{joined}"}}'


def _alike(rows: Sequence[Sequence[Any]]) -> tuple[Any, ...] | None:
    measure, key, _, _, tags, _, by = rows[0]
    if any(row[0] != measure or row[4] != tags or row[6] != by for row in rows):
        return None
    periods, starts = _array([row[2] for row in rows]), _array([row[3] for row in rows])
    return measure, key, tags, by, periods, starts


_GIVEN = (
    "unnest(%s::int[], %s::text[], %s::smallint[], %s::timestamptz[], %s::text[], %s::smallint[], "
    "%s::bigint[]) AS u (m, k, p, s, t, n, d)"
)


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
        # Where transactions keep one snapshot, a row that was changed since could not be taken.
        begin="SET TRANSACTION ISOLATION LEVEL READ COMMITTED",
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


def _batch(sums: Mapping[Hashable, int]) -> Sequence[object]:
    return list(sums), list(sums.values())


def _sqlstate(error: Exception) -> str | None:
    cause = error.__cause__
    state = getattr(cause, "sqlstate", None)
    return None if state is None else str(state)


def _lost(error: Exception) -> bool:
    state = _sqlstate(error)
    if state is None:
        return isinstance(error, InterfaceError | OperationalError)
    return state.startswith(("08", "57P"))


def _refused_by(error: Exception) -> str | None:
    """The constraint that refused a row; empty where no partition takes it."""
    if _sqlstate(error) != "23514":
        return None
    details = getattr(error.__cause__, "diag", None)
    return getattr(details, "constraint_name", None) or ""


_OTHERS = "<> ALL(%(others)s::text[])"
_SAMPLES = Samples(
    # Where transactions keep one snapshot, what somebody else has just recorded is an error.
    begin="SET TRANSACTION ISOLATION LEVEL READ COMMITTED",
    take=take(within("c.key", NAMESPACE, _OTHERS), "%(moment)s::timestamptz"),
    forget=(
        f"DELETE FROM {SAMPLES} WHERE ctid = ANY(ARRAY("
        f"{page('ctid', within('s.key', NAMESPACE, _OTHERS))} FOR UPDATE SKIP LOCKED)) "
        "RETURNING 1"
    ),
)

_MICROSECONDS = "(EXTRACT(EPOCH FROM CLOCK_TIMESTAMP()) * 1000000)::bigint"
_LIMITS = Limits(
    take=take_from(_MICROSECONDS),
    ahead=bucket_ahead(_MICROSECONDS),
    prune=(
        f"DELETE FROM {LIMITS} WHERE ctid = ANY(ARRAY("
        f"{buckets('ctid', _MICROSECONDS)} FOR UPDATE SKIP LOCKED)) RETURNING digest"
    ),
)

DIALECT = Dialect(
    totals=_totals,
    reads=_reads,
    spread=_spread,
    chosen=_chosen,
    fold=_fold,
    patience="SELECT current_setting('lock_timeout')",
    hurry="SELECT set_config('lock_timeout', %s, true)",
    left=left,
    namespaces=lambda table: namespaces(table, NAMESPACE),
    batch=_batch,
    keys=list,
    sums=lambda keys, sums: (keys, sums),
    overflowed=lambda error: _sqlstate(error) == "22003",
    timed_out=lambda error: _sqlstate(error) == "55P03",
    # No lock in time, cancelled, not serializable, deadlock.
    busy=lambda error: _sqlstate(error) in ("55P03", "57014", "40001", "40P01"),
    read_only=lambda error: _sqlstate(error) == "25006",
    lost=_lost,
    now=f"SELECT (EXTRACT(EPOCH FROM {NOW}) * 1000000)::bigint",
    cancelled=lambda error: _sqlstate(error) == "57014",
    unexplained=lambda error: _sqlstate(error) is None,
    unserializable=lambda error: _sqlstate(error) in ("40001", "40P01"),
    refused_by=_refused_by,
    install=install,
    ledger=LEDGER,
    landing=LANDING,
    audit=AUDIT,
    samples=_SAMPLES,
    limits=_LIMITS,
    cells=Cells(
        beside=_beside,
        after=_after,
        alike=_alike,
        add=upsert(f"SELECT * FROM {_GIVEN}"),
        apart=upsert(
            f"SELECT m, k, p, s, t, (SELECT django_counters_cell_shard()), d FROM {_GIVEN}"
        ),
        arrange=_arrange,
        forget=forget_cells("ctid = ANY(ARRAY({} FOR UPDATE SKIP LOCKED))", "ctid"),
    ),
    hottest=hottest(
        recently=f"{NOW} - make_interval(secs => %s)",
        moment="%s::timestamptz",
        token="%s::uuid",  # noqa: S106
        patience="SELECT current_setting('statement_timeout')",
        hurry="SELECT set_config('statement_timeout', %s, true)",
    ),
)
