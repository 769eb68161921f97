"""Partitions are sealed and dropped when their time is over, and no value ever changes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from django.db import connection, transaction

from django_counters import clock
from django_counters.contrib import series
from django_counters.errors import HistoryNotKept, TokenExpired
from django_counters.ledger.partitions import SqlPartitions
from django_counters.ledger.upkeep import PartitionReport, maintain, rebase
from django_counters.models import (
    Counter,
    CounterArchive,
    CounterDelta,
    CounterHorizon,
    CounterPartition,
)
from django_counters.stores.sql.dialects.spelling import DELTAS
from django_counters.tables.schema import beginning
from django_counters.testing import assert_counts, override_counters
from django_counters.tokens import mint
from django_counters.upkeep import verify
from tests.concurrency.narrow import dropped, know_tokens_for, narrow
from tests.concurrency.servers import execute
from tests.ledger.test_partitions import DAY, HOUR, QUARTER, append, ledger, present
from tests.settling import let_others_end, roll_up

pytestmark = pytest.mark.django_db
# Entries of a, which has 1000 from elsewhere, and of b.
AGES = (40, 30, 20, 10, 0)
VALUES = {"a": 1005, "b": 50}


def count() -> list[UUID]:
    """Entries of the last two days, rolled up; from now on tokens are known for an hour."""
    Counter.objects.increment("a", 1000)
    tokens = [append(ago) for ago in AGES]
    for ago in AGES:
        append(ago, "b", 10)
    roll_up()
    know_tokens_for(HOUR)
    return tokens


def assert_intact() -> None:
    assert_counts(VALUES)
    assert verify().drifts == []


@pytest.fixture
def kept(transactional_db: None) -> Iterator[list[UUID]]:
    """The tokens of the entries of a, in partitions of a quarter of a day."""
    with narrow(QUARTER, window=48 * HOUR):
        yield count()


@pytest.mark.postgresql
class TestSealing:
    def test_those_to_which_no_token_can_belong_and_what_they_have_is_kept(
        self, kept: list[UUID]
    ) -> None:
        before = SqlPartitions("default").present()
        report = maintain(width=QUARTER)
        late = clock.utc() - 3 * HOUR
        assert report == PartitionReport(
            sealed=[extent.name for extent in before if extent.until < late]
        )
        assert len(report.sealed) >= 7
        assert present() == [extent.name for extent in before]
        assert_intact()
        assert maintain(width=QUARTER) == PartitionReport()
        for row in CounterPartition.objects.all():
            inside = CounterDelta.objects.filter(
                created_at__gte=row.since, created_at__lt=row.until
            )
            deltas = list(inside.values_list("delta", flat=True))
            assert (row.entries, int(row.delta_sum)) == (len(deltas), sum(deltas))
            kept_of = CounterArchive.objects.filter(partition=row.name)
            assert sum(kept_of.values_list("delta_sum", flat=True)) == sum(deltas)
            assert row.dropped_at is None
        names = CounterPartition.objects.values_list("name", flat=True)
        assert set(names) == set(report.sealed)
        assert verify().partitions == len(report.sealed)
        # Tokens of what is in them are still known.
        for token in kept:
            assert CounterDelta.objects.append("a", 1, token=token).replayed
        assert_intact()

    def test_it_takes_nothing_more(self, kept: list[UUID]) -> None:
        maintain(width=QUARTER)
        # Even where somebody says that tokens are known for longer than they were.
        CounterHorizon.objects.update(token_window=48 * HOUR, tail_since=beginning())
        token = mint(clock.utc() - 30 * HOUR)
        with pytest.raises(TokenExpired) as caught:
            CounterDelta.objects.append("a", 1, token=token)
        assert caught.value.token == str(token)
        with pytest.raises(TokenExpired), transaction.atomic():
            CounterDelta.objects.append_many([("a", 1), ("a", 1, token)])
        assert_intact()

    def test_entries_that_are_gone_are_found(self, kept: list[UUID]) -> None:
        sealed = maintain(width=QUARTER).sealed
        CounterDelta.objects.filter(token=kept[1])._raw_delete("default")
        found = {drift.key: (drift.expected, drift.actual) for drift in verify().drifts}
        (partition,) = set(found) - {"a"}
        assert partition in sealed
        assert found == {"a": (4, 5), partition: (11, 10)}

    @pytest.mark.parametrize("namespace", [None, "x"])
    def test_an_entry_moved_to_an_unknown_counter_is_found(
        self, kept: list[UUID], namespace: str | None
    ) -> None:
        maintain(width=QUARTER)
        execute(f"UPDATE {DELTAS} SET key = 'x:y' WHERE token = %s", kept[1])
        found = {drift.key: drift for drift in verify(namespace=namespace).drifts}
        assert (found["x:y"].expected, found["x:y"].actual) == (1, 0)

    def test_a_seal_whose_record_alone_is_gone_is_made_again(self, kept: list[UUID]) -> None:
        sealed = maintain(width=QUARTER).sealed
        CounterDelta.objects.filter(token=kept[1])._raw_delete("default")
        CounterPartition.objects.all().delete()
        assert maintain(width=QUARTER) == PartitionReport(sealed=sealed)
        assert rebase() == 1
        assert_counts({**VALUES, "a": 1004})
        assert verify().drifts == []

    def test_a_seal_whose_record_is_gone_is_made_anew(self, kept: list[UUID]) -> None:
        """As after a flush, which leaves the partitions as they are."""
        sealed = maintain(width=QUARTER).sealed
        CounterPartition.objects.all().delete()
        CounterArchive.objects.all().delete()
        assert maintain(width=QUARTER).sealed == sealed
        assert_intact()


@pytest.mark.postgresql
class TestDropping:
    def test_those_that_are_past_their_retention(self, kept: list[UUID]) -> None:
        sealed = maintain(width=QUARTER).sealed
        expired = [
            extent.name
            for extent in SqlPartitions("default").present()
            if extent.until < clock.utc() - 13 * HOUR
        ]
        report = maintain(width=QUARTER, keep=13 * HOUR)
        assert report == PartitionReport(dropped=expired)
        assert set(expired) < set(sealed)
        assert not set(expired) & set(present())
        assert CounterDelta.objects.count() == 4
        assert [row.name for row in dropped()] == expired
        assert_intact()
        assert maintain(width=QUARTER, keep=13 * HOUR) == PartitionReport()

    def test_values_stay_through_all_of_it(self, kept: list[UUID]) -> None:
        for hours in (35, 25, 15, 3):
            maintain(width=QUARTER, keep=hours * HOUR)
            maintain(width=QUARTER, keep=hours * HOUR)
            assert_intact()
            append(0, "c")
            roll_up()
            assert_intact()
        archived = CounterArchive.objects.get(partition="", key="a")
        assert (archived.entries, int(archived.delta_sum)) == (4, 4)
        explained = Counter.objects.explain("a")
        assert (explained.value, explained.outside, explained.archived) == (1005, 1000, 4)
        assert len(explained.entries) == 1

    def test_what_is_known_of_those_that_are_gone(self, kept: list[UUID]) -> None:
        for _ in range(2):
            maintain(width=QUARTER, keep=13 * HOUR)
        for token in kept[:3]:
            with pytest.raises(TokenExpired):
                CounterDelta.objects.append("a", 1, token=token)
        for token in kept[3:]:
            assert CounterDelta.objects.append("a", 1, token=token).replayed
        assert rebase() == 0
        Counter.objects.filter(key="b").update(value=0)
        assert rebase() == 1
        assert_intact()
        last = max(row.until for row in dropped())
        before = last - timedelta(seconds=1)
        calls: list[Callable[[], Any]] = [
            lambda: series.history("a", since=before, tz=UTC),
            lambda: Counter.objects.value_at("a", before),
        ]
        for call in calls:
            with pytest.raises(HistoryNotKept) as caught:
                call()
            assert caught.value.since == last
        assert sum(b.change for b in series.history("a", since=last, tz=UTC)) == 2
        assert Counter.objects.value_at("a", last) == 1003

    @pytest.mark.parametrize(
        ("declared", "left"),
        [
            ({"a": ledger(retention_days=4), "b": ledger(retention_days=6)}, 6),
            ({"a": ledger(retention_days=4), "b": ledger()}, None),
            ({"a": ledger(retention_days=4), "b": {"STRATEGY": "sharded"}}, 4),
        ],
    )
    @pytest.mark.django_db(transaction=True)
    def test_namespaces_declare_it_and_the_longest_one_holds(
        self, declared: dict[str, Any], left: int | None
    ) -> None:
        with narrow(DAY, window=9 * DAY), override_counters(**declared):
            for days in range(9):
                append(24 * days)
            roll_up()
            know_tokens_for(48 * HOUR)
            for _ in range(2):
                maintain()
            today = clock.utc().replace(hour=0, minute=0, second=0, microsecond=0)
            oldest = CounterDelta.objects.earliest("created_at").created_at
            assert_counts({"a": 9})
            assert verify().drifts == []
        first: datetime = today - DAY * (8 if left is None else left)
        assert first <= oldest < first + DAY


@pytest.mark.skipif(connection.vendor == "postgresql", reason="it has partitions")
@pytest.mark.django_db(transaction=True)
class TestWithoutPartitions:
    """Entries that are past their retention are archived and deleted."""

    def test_values_stay_through_all_of_it(self) -> None:
        count()
        for hours, gone in ((45, 0), (35, 2), (35, 0), (15, 4), (5, 2)):
            assert maintain(keep=hours * HOUR) == PartitionReport(forgotten=gone)
            assert_intact()
            assert rebase() == 0
        assert CounterDelta.objects.count() == 2
        explained = Counter.objects.explain("a")
        assert (explained.value, explained.outside, explained.archived) == (1005, 1000, 4)

    def test_what_waits_is_not_forgotten(self) -> None:
        append(40)
        # The last one is never forgotten.
        append(0)
        know_tokens_for(HOUR)
        assert maintain(keep=5 * HOUR).forgotten == 0
        let_others_end()
        rebase()
        assert maintain(keep=5 * HOUR).forgotten == 1
        append(0)
        roll_up()
        assert_counts({"a": 3})

    def test_what_a_token_may_belong_to_is_not_forgotten(self) -> None:
        count()
        know_tokens_for(24 * HOUR)
        assert maintain(keep=HOUR).forgotten == 4
        assert_intact()

    def test_namespaces_declare_for_how_long(self) -> None:
        know_tokens_for(9 * DAY)
        append(24 * 5 + 1)
        append(24 * 3)
        roll_up()
        know_tokens_for(48 * HOUR)
        assert maintain().forgotten == 0
        with override_counters(a=ledger(retention_days=5)):
            assert maintain().forgotten == 1
        assert_counts({"a": 2})

    def test_history_says_from_when_on_it_can_answer(self) -> None:
        count()
        maintain(keep=15 * HOUR)
        moment = clock.utc() - 15 * HOUR
        with pytest.raises(HistoryNotKept) as caught:
            Counter.objects.value_at("a", moment - HOUR)
        assert abs(caught.value.since - moment) < timedelta(minutes=1)
        assert Counter.objects.value_at("a", moment + HOUR) == 1003

    def test_a_token_of_one_cannot_count_again(self) -> None:
        tokens = count()
        maintain(keep=15 * HOUR)
        with pytest.raises(TokenExpired):
            CounterDelta.objects.append("a", 1, token=tokens[0])
        assert CounterDelta.objects.append("a", 1, token=tokens[-1]).replayed
        assert_intact()
