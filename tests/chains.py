"""Chains of adjustments for tests, and ways to spoil them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import UUID

import pytest
from django.db import connections, transaction

from django_counters.adjustments import guard
from django_counters.adjustments.sql import SqlAudit, digest_of
from django_counters.models import CounterAdjustment
from tests.schemas import DDL_COMMITS

ENTRY = UUID("01890a5d-ac96-774b-bcce-b302099a8057")


@pytest.fixture(name="guarded")
def _guarded(db: None) -> Iterator[None]:
    """Bring the guard of a test database back before it is emptied, where no rollback does."""
    yield
    if DDL_COMMITS:
        guard.make("default")


def append(count: int = 1, using: str = "default", **columns: Any) -> None:
    """Adjustments as the app writes them."""
    for _ in range(count):
        with transaction.atomic(using=using):
            audit = SqlAudit(using)
            audit.alone()
            audit.write([_COLUMNS | columns])


_COLUMNS: dict[str, Any] = {
    "field": "",
    "key": "stock:Kölsch <b>🍺</b>",
    "before": 5,
    "after": 2,
    "delta": -3,
    "reason": "miscounted\nat night, 'twice' \\ \"quoted\"",
    "case": "T-17",
    "actor_id": "7",
    "actor_name": "ann",
    "approver_id": "8",
    "approver_name": "bob",
    "request_id": "r-1",
    "entry": ENTRY,
}


def stored(using: str = "default") -> list[tuple[Any, ...]]:
    """All that is there, column by column."""
    return list(CounterAdjustment.objects.using(using).order_by("number").values_list())


@contextmanager
def unguarded(using: str = "default") -> Iterator[None]:
    """What the owner of the table can do, and nobody else."""
    guard.remove(using)
    yield
    guard.make(using)


def spoil(sql: str, using: str = "default") -> None:
    """Change the table behind the guard's back; its name stands in for the braces."""
    with unguarded(using), connections[using].cursor() as cursor:
        cursor.execute(sql.format(CounterAdjustment._meta.db_table))


def write_anew(using: str = "default") -> None:
    """Give all adjustments the digests that they should have now."""
    before = ""
    with unguarded(using):
        for row in CounterAdjustment.objects.using(using).order_by("number"):
            before = digest_of(before, row)
            CounterAdjustment.objects.using(using).filter(pk=row.pk).update(digest=before)
