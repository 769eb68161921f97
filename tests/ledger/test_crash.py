"""The upkeep of the ledger, killed in the middle: nothing is lost, nothing is counted twice."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta
from functools import partial

import pytest

from django_counters import clock
from django_counters.ledger.partitions import SqlPartitions
from django_counters.ledger.sql import Extent
from django_counters.models import Counter, CounterDelta, CounterIncident
from django_counters.tokens import mint
from django_counters.upkeep import verify
from tests.concurrency.narrow import dropped, know_tokens_for, narrow
from tests.concurrency.victims import HOUR, fold, seal_and_drop, victims
from tests.settling import roll_up

pytestmark = [pytest.mark.many_writers, pytest.mark.django_db(transaction=True)]
STATEMENTS = 60
DAYS = 60 * HOUR


def assert_exact(expected: int) -> None:
    assert Counter.objects.value("a") == expected
    assert verify().drifts == []
    assert not CounterIncident.objects.exists()


def until(done: Callable[[], bool]) -> None:
    """The server gives the locks of a killed process back as soon as it notices."""
    deadline = time.monotonic() + 30
    while not done():
        assert time.monotonic() < deadline, "what the killed process held is held still"


def test_a_rollup_killed_after_each_of_its_statements() -> None:
    killed: list[str] = []
    with victims(fold) as kill:
        for statement in range(1, STATEMENTS):
            CounterDelta.objects.append("a", 5)
            sql = kill(statement)
            assert_exact(5 * statement)
            if sql is None:
                break
            killed.append(sql)
            until(lambda: roll_up().waiting == 0)
            assert_exact(5 * statement)
            assert Counter.objects.get().value == 5 * statement
    assert sql is None, "the rollup has more statements than were tried"
    for what in ("FOR UPDATE", "INSERT INTO django_counters_counter ", "rolled_up_at"):
        assert any(what in sql for sql in killed)


def append_to(extent: Extent) -> None:
    """An entry that is rolled up, and the next one whose partition can be sealed."""
    know_tokens_for(DAYS)
    CounterDelta.objects.append("a", 5, token=mint(extent.since + HOUR / 2))
    roll_up()
    know_tokens_for(clock.utc() - extent.until - 2 * HOUR - timedelta(minutes=1))


def is_dropped(extent: Extent) -> bool:
    seal_and_drop()
    return extent.name in {record.name for record in dropped()}


@pytest.mark.postgresql
def test_partitions_killed_after_each_of_their_statements() -> None:
    killed: list[str] = []
    with narrow(HOUR, window=DAYS), victims(seal_and_drop) as kill:
        # The first one has begun too early for a token, and the last ones cannot be sealed yet.
        extents = SqlPartitions("default").present()[2:STATEMENTS]
        for statement, extent in enumerate(extents, start=1):
            append_to(extent)
            sql = kill(statement)
            assert_exact(5 * statement)
            if sql is None:
                break
            killed.append(sql)
            until(partial(is_dropped, extent))
            assert_exact(5 * statement)
    assert sql is None, "they have more statements than were tried"
    for what in ("LOCK TABLE", "ADD CONSTRAINT", "DETACH", "DROP TABLE", "dropped_at"):
        assert any(what in sql for sql in killed)
