"""Regions in PostgreSQL."""

from __future__ import annotations

from django_counters.stores.sql.dialects.regions import Regions


class PostgresRegions(Regions):
    """The statements about what regions have counted."""

    # Whatever puts back the files of a server starts it, and a copy has another number.
    life = (
        "SELECT concat_ws(' ', (SELECT oid FROM pg_database WHERE datname = current_database()), "
        "EXTRACT(EPOCH FROM pg_postmaster_start_time()))"
    )
