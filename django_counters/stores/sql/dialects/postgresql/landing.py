"""Landings in PostgreSQL: a transaction that inserts a generation applies it, all others wait and
go on."""

from __future__ import annotations

from django_counters.stores.sql.dialects.landing import BATCHES, Landing

# A tenant may have a schema of its own.
_PLACE = (
    "concat_ws(' ', (SELECT oid FROM pg_database WHERE datname = current_database()), "
    f"(SELECT relnamespace::regnamespace FROM pg_class WHERE oid = '{BATCHES}'::regclass))"
)


class PostgresLanding(Landing):
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
