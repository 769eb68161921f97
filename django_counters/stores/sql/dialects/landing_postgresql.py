"""Landings in PostgreSQL: whoever inserts a generation applies it, all others wait and go on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django_counters.stores.sql.dialects.landing import (
    BATCHES,
    Identity,
    Landing,
    together,
)
from django_counters.stores.sql.dialects.tables import COUNTER, Table

_AMONG = "= ANY(%s::uuid[])"


def _columns(rows: Sequence[Sequence[Any]]) -> tuple[Any, ...]:
    return tuple(list(column) for column in zip(*rows, strict=True))


def _hold(table: Table, key_type: str) -> str:
    """Hold rows in the order of their keys, so that no two landings wait for each other."""
    return (
        f"SELECT {table.key}, {table.value} FROM {table.name} "
        f"WHERE {table.key} = ANY(%s::{key_type}[]) ORDER BY {table.key} FOR NO KEY UPDATE"
    )


def _credit(table: Table, key_type: str) -> str:
    return (
        f"UPDATE {table.name} t SET {table.value} = t.{table.value} + u.d "
        f"FROM unnest(%s::{key_type}[], %s::bigint[]) AS u (k, d) "
        f"WHERE t.{table.key} = u.k RETURNING 1"
    )


# A tenant may have a schema of its own.
_PLACE = (
    "concat_ws(' ', (SELECT oid FROM pg_database WHERE datname = current_database()), "
    f"(SELECT relnamespace::regnamespace FROM pg_class WHERE oid = '{BATCHES}'::regclass))"
)

LANDING = Landing(
    # Where transactions keep one snapshot, what another landing has just written is an error.
    begin="SET TRANSACTION ISOLATION LEVEL READ COMMITTED",
    # What Redis is told to forget has to be on the disk.
    settings=(
        "SELECT set_config('synchronous_commit', 'on', true), "
        "set_config('lock_timeout', %s, true), set_config('statement_timeout', %s, true)"
    ),
    together=together(_AMONG),
    settled=(
        "SELECT pg_current_xact_id_if_assigned() IS NULL "
        "AND current_setting('transaction_isolation') = 'read committed'"
    ),
    # In one pass: whoever made rows first and held others then could wait in a circle.
    make=(
        f"INSERT INTO {COUNTER} AS t (key, value, updated_at) "
        "SELECT u.k, 0, STATEMENT_TIMESTAMP() FROM unnest(%s::text[]) AS u (k) "
        'ORDER BY u.k COLLATE "C" ON CONFLICT (key) DO UPDATE SET value = t.value RETURNING 1'
    ),
    hold=_hold,
    credit=_credit,
    columns=_columns,
    identity=Identity(
        may_ask="SELECT has_function_privilege('pg_control_system()', 'EXECUTE')",
        # A server that takes over from another by replication has the same number.
        whole=f"SELECT concat_ws(' ', system_identifier, {_PLACE}) FROM pg_control_system()",
        part=f"SELECT {_PLACE}",
    ),
)
