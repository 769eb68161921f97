"""Partitions of the ledger are made ahead of time, and it is said when they are not."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from itertools import pairwise
from typing import Any
from uuid import UUID

import pytest
from django.db import connection, transaction

from django_counters import clock
from django_counters.checks import check_databases
from django_counters.errors import PartitionMissing
from django_counters.hints import HINTS
from django_counters.ledger.partitions import SqlPartitions
from django_counters.ledger.upkeep import PartitionReport, maintain, partitions_ahead, plan
from django_counters.metrics.doctor import examine
from django_counters.models import (
    CounterDelta,
)
from django_counters.testing import assert_counts, override_counters
from django_counters.tokens import mint, moment_of
from django_counters.upkeep import rollup

pytestmark = [pytest.mark.postgresql, pytest.mark.django_db]
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
QUARTER = 6 * HOUR


def ledger(**options: Any) -> dict[str, Any]:
    return {"STRATEGY": "ledger", "OPTIONS": options}


def execute(sql: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(sql)


def present() -> list[str]:
    return [extent.name for extent in SqlPartitions("default").present()]


def lose(count: int) -> None:
    """The last partitions are gone."""
    names = present()
    for name in names[len(names) - count :]:
        execute(f'DROP TABLE "{name}"')


def append(hours_ago: float, key: str = "a", by: int = 1) -> UUID:
    token = mint(clock.utc() - hours_ago * HOUR)
    CounterDelta.objects.append(key, by, token=token)
    return token


@pytest.fixture
def _today() -> None:
    """Midnight may have come since the migration."""
    maintain()


@pytest.mark.usefixtures("_today")
class TestAhead:
    def test_they_follow_each_other_and_hold_the_window(self) -> None:
        extents = SqlPartitions("default").present()
        assert all(one.until == other.since for one, other in pairwise(extents))
        now = clock.utc()
        assert extents[0].since <= now - 49 * HOUR
        assert extents[-1].since > now + 6 * DAY
        for extent in extents:
            assert extent.until - extent.since == DAY
            assert extent.name == f"django_counters_counterdelta_{extent.since:%Y%m%d}"

    def test_those_that_are_missing_are_made(self) -> None:
        before = present()
        lose(3)
        execute(f'DROP TABLE "{before[4]}"')
        steps = plan()
        assert [step.verb for step in steps] == ["create"] * 4
        # To plan is to change nothing.
        lost = [before[4], *before[-3:]]
        assert present() == [name for name in before if name not in lost]
        assert maintain() == PartitionReport(created=lost)
        assert present() == before
        assert plan() == []

    def test_one_is_like_the_other(self) -> None:
        """Its keys and indexes are those of the table, so a token is as unique in it."""
        lose(9)
        maintain()
        token = append(0)
        assert CounterDelta.objects.append("a", 1, token=token).replayed
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT DISTINCT COUNT(*) FROM pg_index x JOIN pg_inherits i "
                "ON i.inhrelid = x.indrelid WHERE i.inhparent = %s::regclass GROUP BY x.indrelid",
                [CounterDelta._meta.db_table],
            )
            assert cursor.fetchall() == [(3,)]

    def test_a_rollup_makes_them_when_few_are_left(self) -> None:
        before = present()
        lose((partitions_ahead("default") or 0) - 3)
        rollup()
        assert partitions_ahead("default") == 3
        lose(1)
        rollup()
        assert present() == before


@pytest.mark.usefixtures("_today")
class TestMissing:
    """Nothing can be appended for a day that has no partition, and the error says what to do."""

    calls: tuple[Callable[[UUID], Any], ...] = (
        lambda _: CounterDelta.objects.append("a", 1),
        lambda token: CounterDelta.objects.append("a", 1, token=token),
        lambda _: CounterDelta.objects.append("a", 1, token="order-17"),
        lambda _: CounterDelta.objects.append_many([("a", 1), ("b", 1)]),
        lambda _: CounterDelta.objects.append_many([("a", 1)], copy=True),
        lambda token: CounterDelta.objects.append_many([("a", 1), ("b", 1, token)]),
    )

    def test_it_is_an_error_of_its_own(self) -> None:
        token = mint(clock.utc())
        lose(len(present()))
        advice = r"run manage\.py counters upkeep partitions"
        for call in self.calls:
            with pytest.raises(PartitionMissing, match=advice) as caught, transaction.atomic():
                call(token)
            assert "None" not in str(caught.value)
        # A token tells for when it is missing.
        with pytest.raises(PartitionMissing) as caught, transaction.atomic():
            CounterDelta.objects.append("a", 1, token=token)
        assert caught.value.created_at == moment_of(token)
        assert f"{moment_of(token):%Y-%m-%d}" in str(caught.value)
        assert_counts({"a": 0, "b": 0})
        maintain()
        for call in self.calls:
            call(mint(clock.utc()))
        assert_counts({"a": 6, "b": 2})


@pytest.mark.usefixtures("_today")
class TestWarnings:
    @pytest.mark.parametrize(("left", "warned"), [(3, False), (2, True), (0, True)])
    def test_below_three_ahead_there_is_one(self, left: int, warned: bool) -> None:
        lose((partitions_ahead("default") or 0) - left)
        with override_counters(orders=ledger()):
            found = check_databases(databases=["default"])
            advice = [finding.action for finding in examine() if finding.action]
        assert [one.id for one in found] == ["counters.W011"] * warned
        assert len(advice) == warned
        if warned:
            assert f"has {left} partitions ahead, 3 are needed" in found[0].msg
            assert "manage.py counters upkeep partitions" in found[0].msg
            assert found[0].hint == HINTS["W011"]
            assert f"{left} partitions ahead" in advice[0]

    def test_those_behind_a_gap_do_not_count(self) -> None:
        ahead = partitions_ahead("default") or 0
        names = present()
        execute(f'DROP TABLE "{names[len(names) - ahead + 1]}"')
        assert partitions_ahead("default") == 1
        with override_counters(orders=ledger()):
            assert [one.id for one in check_databases(databases=["default"])] == ["counters.W011"]

    def test_databases_that_are_not_asked_for_are_not_looked_at(self) -> None:
        lose(7)
        with override_counters(orders=ledger()):
            assert check_databases(databases=[]) == []
            assert check_databases() == []
