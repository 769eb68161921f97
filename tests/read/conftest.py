"""Fixtures of the tests of reading."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection
from django.test import override_settings

from django_counters import clock
from django_counters.models import CounterHorizon
from django_counters.registry import registry
from django_counters.stores.sql.partitions import SqlPartitions
from tests.read.counting import NAMESPACES, NOW


@pytest.fixture
def past(db: None) -> None:
    """Tokens may be as old as 2010, until the transaction of the test ends."""
    CounterHorizon.objects.update(token_window=timedelta(days=36_500))
    if connection.vendor == "postgresql":
        since, until = datetime(2010, 1, 1, tzinfo=UTC), datetime(2025, 1, 1, tzinfo=UTC)
        SqlPartitions("default").create(since, until)


@pytest.fixture
def by_period(
    monkeypatch: pytest.MonkeyPatch, override_counters: Callable[..., None]
) -> Iterator[None]:
    """It is half past noon of a day in May, and some namespaces are counted by period."""
    monkeypatch.setattr(clock, "utc", lambda: NOW)
    override_counters(**NAMESPACES)
    with override_settings(TIME_ZONE="UTC"):
        yield
    # What a test has made it forget may have been found again in the transaction of the test.
    registry.forget_strategies()
