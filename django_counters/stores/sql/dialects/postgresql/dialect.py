"""PostgreSQL as a dialect."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from django_counters.stores.sql.dialects.base import Dialect
from django_counters.stores.sql.dialects.claims import BATCHES, LandingStatements
from django_counters.stores.sql.dialects.postgresql import statements
from django_counters.stores.sql.dialects.postgresql.cells import GUARD_REFUSED, PostgresCells
from django_counters.stores.sql.dialects.postgresql.functions import install
from django_counters.stores.sql.dialects.spelling import HORIZON, Table
from django_counters.stores.sql.dialects.totals import Fold, Reads, Rights, SpreadStatements, Totals

# A tenant may have a schema of its own.
_PLACE = (
    "concat_ws(' ', (SELECT oid FROM pg_database WHERE datname = current_database()), "
    f"(SELECT relnamespace::regnamespace FROM pg_class WHERE oid = '{BATCHES}'::regclass))"
)


class PostgresLanding(LandingStatements):
    """The statements that bring generations of increments into the totals."""

    # What Redis is told to forget has to be on the disk.
    settings = (
        "SELECT set_config('synchronous_commit', 'on', true), "
        "set_config('lock_timeout', %s, true), set_config('statement_timeout', %s, true)"
    )
    settled = (
        "SELECT pg_current_xact_id_if_assigned() IS NULL "
        "AND current_setting('transaction_isolation') = 'read committed'"
    )
    may_ask = "SELECT has_function_privilege('pg_control_system()', 'EXECUTE')"
    # A server that takes over from another by replication has the same number.
    whole = f"SELECT concat_ws(' ', system_identifier, {_PLACE}) FROM pg_control_system()"
    part = f"SELECT {_PLACE}"


class PostgreSQL(Dialect):
    """PostgreSQL 14 and newer."""

    appends_in_one_statement = True
    changes_chosen = True
    knows_time_zones = True
    knows_transaction_horizon = True
    ends_idle = "SELECT set_config('idle_in_transaction_session_timeout', %s, true)"
    limits_time = True
    partitions = True
    tells_isolation = True

    OVERFLOWED = ("22003",)
    TIMED_OUT = ("55P03",)
    # No lock in time, cancelled, not serializable, deadlock.
    BUSY = ("55P03", "57014", "40001", "40P01")
    READ_ONLY = ("25006",)
    # The last is of a transaction in which nothing was asked for too long.
    LOST = ("08", "57P", "25P03")
    CANCELLED = ("57014",)
    UNSERIALIZABLE = ("40001", "40P01")

    now = "STATEMENT_TIMESTAMP()"
    clock = "CLOCK_TIMESTAMP()"
    ago, later = f"{now} - make_interval(secs => %s)", f"{clock} + make_interval(secs => %s)"
    microseconds = "(EXTRACT(EPOCH FROM CLOCK_TIMESTAMP()) * 1000000)::bigint"

    held = " FOR NO KEY UPDATE"
    waits = f"{Dialect.waits} AND seq > (SELECT COALESCE(MAX(fence), 0) FROM {HORIZON})"
    earliest = "'-infinity'"
    array, gathered = "jsonb_build_array", "jsonb_agg"

    claims = statements.PostgresClaims
    ledger = "django_counters.ledger.postgresql.PostgresLedger"

    def __init__(self) -> None:
        super().__init__()
        self.cells = PostgresCells(self)
        self.conditions = statements.PostgresConditions(self)
        self.landing = PostgresLanding(self)

    install = staticmethod(install)

    def guard_numbers(self, error: Exception) -> tuple[int, ...] | None:
        """The numbers of a guard that refused a change."""
        if self.code(error) != GUARD_REFUSED:
            return None
        detail = error.__cause__.diag.message_detail  # type: ignore[union-attr]
        return tuple(map(int, detail.split(",")))

    def refused_function(self, error: Exception) -> str:
        """The function that the role may not execute; empty where it is another error."""
        is_refused = self.code(error) == "42501"
        found = re.search(r"\bdjango_counters_\w+", str(error)) if is_refused else None
        return found[0] if found else ""

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

    def since_1970(self, moment: str) -> str:
        """A moment in microseconds since 1970."""
        return f"(EXTRACT(EPOCH FROM {moment}) * 1000000)::bigint"

    def among(self, kind: str = "", given: str = "%s") -> str:
        """The condition that a column is one of many."""
        return f"= ANY({given}::{kind}[])" if kind else f"= ANY({given})"

    def rows(self, **columns: str) -> str:
        """The rows of parameters: an array for each column."""
        arrays = ", ".join(f"%s::{kind}[]" for kind in columns.values())
        return f"unnest({arrays}) AS u ({', '.join(columns)})"

    def each(self, kind: str) -> str:
        """The rows of an array."""
        return self.rows(k=kind)

    def pairs(self, column: str) -> str:
        """The rows of pairs."""
        each = "(p ->> 0)::bigint AS a, (p ->> 1)::bigint AS b"
        return f"(SELECT {each} FROM jsonb_array_elements({column}) AS p) AS u"

    def ordered(self, key: str) -> str:
        """The order of bytes, with any setting of the database."""
        return f'ORDER BY {key} COLLATE "C"'

    def waits_for(self, table: Table) -> str:
        """Whether something is pending for the record of a row."""
        return f"django_counters_waits({statements.address_of(table)})"

    def tail_of(self, key: str) -> str:
        """The amount that waits in the ledger for one counter."""
        return f"SELECT django_counters_tail({key}) AS waits"

    def tails(self) -> str:
        """The amount that waits in the ledger for some counters."""
        return "SELECT k, NULL, waits FROM django_counters_tails(%s)"

    def delete_some(self, table: str, which: str, returning: str = "1") -> str:
        """Delete some unlocked rows."""
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

    def sums(self, sums: Mapping[Any, int]) -> tuple[Any, ...]:
        """Two arrays."""
        return list(sums), list(sums.values())

    def totals(self, table: Table) -> Totals:
        """The statements that change totals in place."""
        return (statements.FunctionTotals if table.inserts else Totals)(self, table)

    def reads(self, table: Table) -> Reads:
        """The statements that read totals and the amount that waits for them."""
        return (Reads if table.pending.record else statements.FunctionReads)(self, table)

    def spread(self, table: Table, cap: int) -> SpreadStatements:
        """The statements that let increments wait in rows of their own."""
        made = statements.SlotStatements if table.pending.record else statements.Shards
        return made(self, table, cap)

    def rights(self, table: Table, cap: int) -> Rights:
        """The statements that let increments wait where there is a floor."""
        made = statements.SlotRights if table.pending.record else statements.ShardRights
        return made(self, table, self.spread(table, cap))

    def fold(self, table: Table, key_type: str) -> Fold:
        """The statements of a rollup."""
        return statements.GroupedFold(self, table, key_type)

    chosen = staticmethod(statements.chosen)
