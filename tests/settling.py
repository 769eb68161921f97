"""A rollup that folds all there is, whoever else uses the server."""

from __future__ import annotations

import time
from typing import Any

from django.db import connections

from django_counters.upkeep import RollupReport, rollup

PATIENCE = 120
XMIN = "SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint"


def roll_up(using: str = "default", **options: Any) -> RollupReport:
    """Roll up as soon as every transaction has ended that is older than the last entry.

    Transactions of other databases of the server count, too: those of tests beside this one, and
    those of autovacuum.
    """
    let_others_end(using)
    return rollup(using, **options)


def let_others_end(using: str = "default") -> None:
    """Wait until the horizon can reach all that is committed by now."""
    connection = connections[using]
    if connection.vendor != "postgresql":
        return
    assert not connection.in_atomic_block, "a transaction cannot outlive itself"
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_current_xact_id()::text::bigint")
        (mine,) = cursor.fetchone()
        deadline = time.monotonic() + PATIENCE
        while True:
            cursor.execute(XMIN)
            if cursor.fetchone()[0] > mine:
                return
            assert time.monotonic() < deadline, "somebody's transaction does not end"
            time.sleep(0.01)
