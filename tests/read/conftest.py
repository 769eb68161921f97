"""Fixtures of the tests of reading."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection

from django_counters.ledger.partitions import SqlPartitions
from django_counters.models import CounterHorizon


@pytest.fixture
def past(db: None) -> None:
    """Tokens may be as old as 2010, until the transaction of the test ends."""
    CounterHorizon.objects.update(token_window=timedelta(days=36_500))
    if connection.vendor == "postgresql":
        since, until = datetime(2010, 1, 1, tzinfo=UTC), datetime(2025, 1, 1, tzinfo=UTC)
        SqlPartitions("default").create(since, until)
