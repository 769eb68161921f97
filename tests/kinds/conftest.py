"""Fixtures of the tests of what can be asked."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection

from django_counters.models import CounterHorizon
from django_counters.stores.sql.partitions import SqlPartitions
from tests.kinds.adjustables import KINDS, NAMED, SOME, Adjustable, params


@pytest.fixture
def past(db: None) -> None:
    """Tokens may be as old as 2010, until the transaction of the test ends."""
    CounterHorizon.objects.update(token_window=timedelta(days=36_500))
    if connection.vendor == "postgresql":
        since, until = datetime(2010, 1, 1, tzinfo=UTC), datetime(2025, 1, 1, tzinfo=UTC)
        SqlPartitions("default").create(since, until)


def _adjustable(request: pytest.FixtureRequest) -> Iterator[Adjustable]:
    if "cached" in request.param:
        request.getfixturevalue("cached")
    counter = Adjustable(KINDS[request.param])
    with counter.declared():
        yield counter


@pytest.fixture(params=params(KINDS))
def any_counter(request: pytest.FixtureRequest, db: None) -> Iterator[Adjustable]:
    """One counter of each kind, fields and slots included."""
    yield from _adjustable(request)


@pytest.fixture(params=params(SOME))
def some_counter(request: pytest.FixtureRequest, db: None) -> Iterator[Adjustable]:
    """One counter of each way in which they differ."""
    yield from _adjustable(request)


@pytest.fixture(params=params(NAMED))
def counter(request: pytest.FixtureRequest, db: None) -> Iterator[Adjustable]:
    """One named counter of each strategy."""
    yield from _adjustable(request)
