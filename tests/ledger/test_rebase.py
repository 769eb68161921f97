"""The way back: totals are computed anew, after a restore or whatever else went wrong."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from django.db import connections, transaction
from django.db.transaction import TransactionManagementError

from django_counters import clock
from django_counters.errors import LedgerFenced, LedgerIncomplete
from django_counters.ledger.partitions import SqlPartitions
from django_counters.ledger.upkeep import maintain, rebase, state
from django_counters.metrics.doctor import examine
from django_counters.models import (
    Counter,
    CounterDelta,
    CounterHorizon,
    CounterIncident,
    CounterPartition,
    CounterShard,
)
from django_counters.testing import assert_counts
from django_counters.tokens import mint
from django_counters.upkeep import rollup, verify
from example_project.bootstrap import children
from tests.concurrency.narrow import dropped, know_tokens_for, narrow
from tests.concurrency.servers import connected, waiting
from tests.concurrency.servers import execute as write
from tests.ledger.test_partitions import HOUR, execute
from tests.ledger.test_rollup import append, totals
from tests.settling import let_others_end, roll_up

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _ledger(override_counters: Callable[..., None]) -> None:
    override_counters(orders={"STRATEGY": "ledger"}, likes={"STRATEGY": "sharded"})


class TestRebase:
    @pytest.mark.parametrize("rolled_up", [False, True])
    def test_it_repairs_a_total(self, rolled_up: bool) -> None:
        Counter.objects.increment("orders:a", 100)
        append(a=5, b=7)
        if rolled_up:
            roll_up()
        Counter.objects.filter(key="orders:a").update(value=999)
        rebase()
        assert totals() == {"orders:a": 105, "orders:b": 7}
        assert verify().drifts == []

    def test_it_repairs_one_that_was_deleted(self) -> None:
        append(a=5)
        roll_up()
        Counter.objects.all().delete()
        assert rebase() == 1
        assert_counts({"orders:a": 5})


@pytest.mark.postgresql
class TestPartitions:
    def test_it_keeps_late_entries_of_a_time_whose_partition_was_dropped(self) -> None:
        moment = clock.utc() - 9 * HOUR
        with narrow(HOUR, window=10 * HOUR):
            CounterDelta.objects.append("orders:a", 20, token=mint(moment))
            append(a=300)
            roll_up()
            know_tokens_for(HOUR)
            for _ in range(2):
                maintain(width=HOUR, keep=timedelta(0))
            (gone,) = (record.name for record in dropped() if record.entries)
            know_tokens_for(10 * HOUR)
            maintain(width=HOUR)
            CounterDelta.objects.append("orders:a", 20, token=mint(moment))
            roll_up()
            rebase()
            assert_counts({"orders:a": 340})
            know_tokens_for(HOUR)
            again = f"{gone}_2"
            assert again in maintain(width=HOUR).sealed
            assert again in maintain(width=HOUR, keep=timedelta(0)).dropped
            rebase()
            assert_counts({"orders:a": 340})
            assert verify().drifts == []

    @pytest.mark.parametrize("is_dropped", [False, True])
    @pytest.mark.rare
    def test_an_entry_that_arrives_while_it_waits_for_a_partition(self, is_dropped: bool) -> None:
        """As from a subscription, which writes to the partition itself."""
        with narrow(HOUR, window=10 * HOUR), connected("beside"):
            CounterDelta.objects.append("orders:a", 20, token=mint(clock.utc() - 9 * HOUR))
            entry = CounterDelta.objects.get()
            (extent,) = (
                one
                for one in SqlPartitions("default").present()
                if one.since <= clock.meant(entry.created_at) < one.until
            )
            CounterPartition.objects.create(
                name=extent.name,
                since=extent.since,
                until=extent.until,
                entries=1,
                delta_sum=20,
                sealed_at=clock.now(),
                dropped_at=clock.now() if is_dropped else None,
            )
            insert = (
                f'INSERT INTO "{extent.name}" (token, created_at, key, delta) '
                "VALUES (gen_random_uuid(), %s, 'orders:a', 7)"
            )
            with ThreadPoolExecutor() as pool:
                # A session's first write to a partition locks the parent, later ones don't.
                with transaction.atomic(using="beside"):
                    write(insert, extent.since, using="beside")
                    transaction.set_rollback(True, using="beside")
                with transaction.atomic(using="beside"):
                    write(insert, extent.since, using="beside")
                    settling = pool.submit(settle)
                    assert children.until(lambda: waiting() > 0, 30.0)
                with pytest.raises(LedgerIncomplete, match="2 of 1 entries"):
                    settling.result()
            assert_counts({"orders:a": 27})


def settle() -> None:
    try:
        SqlPartitions("default").settle()
    finally:
        connections.close_all()


@pytest.mark.postgresql
class TestOneSnapshot:
    """Where a transaction sees what was, and not what is, nothing can be folded for sure."""

    @pytest.mark.parametrize("work", [rollup, rebase])
    @pytest.mark.parametrize("level", ["REPEATABLE READ", "SERIALIZABLE"])
    def test_it_is_refused(self, work: Callable[[], Any], level: str) -> None:
        append(a=5)
        refused = pytest.raises(TransactionManagementError, match="cannot be rolled up")
        with refused, transaction.atomic():
            execute(f"SET TRANSACTION ISOLATION LEVEL {level}")
            work()
        assert totals() == {"orders:a": 0}
        assert_counts({"orders:a": 5})

    @pytest.mark.parametrize("work", [rollup, rebase])
    def test_a_transaction_of_its_own_is_none(self, work: Callable[[], Any]) -> None:
        """Whatever the connection declares."""
        append(a=5)
        let_others_end()
        execute("SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL SERIALIZABLE")
        try:
            work()
        finally:
            execute("SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL READ COMMITTED")
        assert totals() == {"orders:a": 5}


class TestFence:
    """Where numbers of transactions mean something else, nothing is folded and nothing appended."""

    @pytest.fixture
    def _restored(self) -> None:
        """As after a restore: the entries came from a server that is far ahead."""
        append(a=5)
        roll_up()
        append(a=3)
        CounterHorizon.objects.update(horizon=2**60)

    @pytest.mark.many_writers
    @pytest.mark.usefixtures("_restored")
    def test_a_rollup_is_refused_but_for_shards(self) -> None:
        CounterShard.objects.increment("likes:a", 2)
        for _ in range(2):
            with pytest.raises(LedgerFenced, match="another server"):
                rollup()
        assert totals() == {"orders:a": 5, "likes:a": 2}
        (incident,) = CounterIncident.objects.all()
        assert (incident.kind, incident.subject) == ("fenced", "default")
        assert any("rebase" in finding.action for finding in examine())
        assert "rebase" in state().fenced

    def test_a_horizon_that_is_lost_is_not_made_anew(self) -> None:
        """All entries would be folded a second time."""
        append(a=5)
        roll_up()
        CounterHorizon.objects.all().delete()
        with pytest.raises(LedgerFenced, match="has lost its horizon"):
            rollup()
        rebase()
        assert totals() == {"orders:a": 5}
        append(a=1)
        assert roll_up().entries == 1
        assert_counts({"orders:a": 6})
