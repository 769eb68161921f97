"""A rollup that folds all there is, whoever else uses the server."""

from __future__ import annotations

import time
from typing import Any

from django.db import connections

from django_counters.models import CounterHorizon
from django_counters.upkeep.rollup import Report, rollup

PATIENCE = 120
XMIN = "SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint"


def roll_up(using: str = "default", **options: Any) -> Report:
    """Roll up as soon as every transaction has ended that is older than the last entry.

    Transactions of other databases of the server count, too: those of tests beside this one, and
    those of autovacuum.
    """
    let_others_end(using)
    report = rollup(using, **options)
    # On MySQL each one folds one epoch, and open transactions, or other tests, have left several.
    several = connections[using].vendor == "mysql" and not options
    deadline = time.monotonic() + PATIENCE
    while several and report.waiting and not report.stuck:
        before = _horizon(using)
        report = rollup(using)
        if not report.stuck and _horizon(using) == before:
            # Others, who count meanwhile, hold the oldest epoch just now.
            assert time.monotonic() < deadline, "somebody's transaction does not end"
            time.sleep(0.01)
    return report


def _horizon(using: str) -> int | None:
    rows = CounterHorizon._base_manager.using(using)
    return rows.values_list("horizon", flat=True).first()


def let_followers_see(using: str = "default") -> None:
    """Let whoever follows the ledger see all that is committed by now."""
    let_others_end(using)
    if connections[using].vendor == "mysql":
        # An entry is seen when it is rolled up.
        roll_up(using)


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
