"""Regions in PostgreSQL."""

from __future__ import annotations

from django_counters.stores.sql.dialects.regions import Regions


class PostgresRegions(Regions):
    """The statements about what regions have counted."""

    # A restore of the files of a server starts it. A database that was loaded has another
    # number, and a server that was recovered or promoted another timeline, with which the names of
    # its files of WAL begin.
    life = (
        "SELECT concat_ws(' ', (SELECT oid FROM pg_database WHERE datname = current_database()), "
        "left(pg_walfile_name(pg_current_wal_lsn()), 8), "
        "EXTRACT(EPOCH FROM pg_postmaster_start_time()))"
    )
