"""The way back: totals are computed anew, after a restore or whatever else went wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.db import transaction
from django.db.transaction import TransactionManagementError

from django_counters import clock
from django_counters.exceptions import LedgerFenced
from django_counters.models import (
    Counter,
    CounterDelta,
    CounterHorizon,
    CounterIncident,
    CounterShard,
)
from django_counters.testing import assert_counts
from django_counters.tokens import mint
from django_counters.upkeep.doctor import examine
from django_counters.upkeep.ledger import rebase, state
from django_counters.upkeep.rollup import Report, rollup
from django_counters.upkeep.verify import verify
from tests.settling import let_others_end, roll_up
from tests.upkeep.test_ledger import Elsewhere, append, opened, totals
from tests.upkeep.test_partitions import execute

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _ledger(override_counters: Callable[..., None]) -> None:
    override_counters(orders={"STRATEGY": "ledger"}, likes={"STRATEGY": "sharded"})


class TestRebase:
    def test_it_changes_nothing_where_nothing_is_wrong(self) -> None:
        Counter.objects.increment("orders:a", 100)
        append(a=5, b=-5)
        roll_up()
        before = list(Counter.objects.order_by("key").values())
        assert rebase() == 0
        assert list(Counter.objects.order_by("key").values()) == before
        assert roll_up() == Report()

    def test_it_folds_what_waits(self) -> None:
        append(a=5)
        roll_up()
        append(a=3, b=2)
        assert rebase() == 2
        assert totals() == {"orders:a": 8, "orders:b": 2}
        assert_counts({"orders:a": 8, "orders:b": 2})
        assert roll_up() == Report()

    def test_counting_goes_on_after_it(self) -> None:
        append(a=5)
        rebase()
        token = mint(clock.utc())
        for replayed in (False, True):
            assert CounterDelta.objects.append("orders:a", 3, token=token).replayed is replayed
        assert_counts({"orders:a": 8})
        assert Counter.objects.read("orders:a").pending == 3
        assert roll_up().entries == 1
        assert totals() == {"orders:a": 8}

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

    def test_what_came_otherwise_stays_as_it_is(self) -> None:
        append(a=5)
        Counter.objects.create(key="never", value=50)
        CounterShard.objects.increment("orders:a", 1000)
        rebase()
        assert totals() == {"orders:a": 5, "never": 50}
        assert_counts({"orders:a": 1005, "never": 50})
        roll_up()
        assert (rebase(), verify().drifts) == (0, [])

    def test_twice_is_as_once(self) -> None:
        append(a=5, b=7)
        assert (rebase(), rebase()) == (2, 0)
        assert_counts({"orders:a": 5, "orders:b": 7})

    @pytest.mark.postgres
    def test_what_is_older_than_a_transaction_that_runs(self, elsewhere: Elsewhere) -> None:
        """The new horizon is below what is counted already, and the fence keeps it apart."""
        append(a=100)
        with opened(elsewhere):
            elsewhere(lambda: Counter.objects.increment("plain"))
            append(a=10)
            assert rebase() == 1
            assert_counts({"orders:a": 110})
            # Its number is smaller than those of entries that are counted.
            elsewhere(lambda: append(a=1))
            append(a=2)
            assert_counts({"orders:a": 112})
        assert_counts({"orders:a": 113, "plain": 1})
        assert Counter.objects.value("orders:a") == 113
        assert roll_up().entries == 2
        assert totals() == {"orders:a": 113, "plain": 1}
        assert verify().drifts == []

    @pytest.mark.postgres
    def test_it_waits_for_those_who_write(self, elsewhere: Elsewhere) -> None:
        """And so it cannot miss what they have not yet committed."""
        with transaction.atomic():
            append(a=5)
            with pytest.raises(Exception, match="lock timeout"):
                elsewhere(rebase)
        elsewhere(rebase)
        assert totals() == {"orders:a": 5}


@pytest.mark.postgres
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

    @pytest.mark.postgres
    @pytest.mark.usefixtures("_restored")
    def test_an_append_is_refused(self) -> None:
        calls: list[Callable[[], Any]] = [
            lambda: append(a=1),
            lambda: CounterDelta.objects.append("orders:a", 1, token=mint(clock.utc())),
            lambda: CounterDelta.objects.append_many([("orders:a", 1), ("orders:b", 1)]),
            lambda: CounterDelta.objects.append_many([("orders:a", 1, mint(clock.utc()))]),
            lambda: CounterDelta.objects.append_many([("orders:a", 1)], copy=True),
            lambda: Counter.objects.increment_many({"orders:a": 1, "orders:b": 1}),
        ]
        for call in calls:
            with pytest.raises(LedgerFenced, match="counters rebase"):
                call()
        assert CounterDelta.objects.count() == 2

    @pytest.mark.postgres
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

    @pytest.mark.postgres
    @pytest.mark.usefixtures("_restored")
    def test_a_rebase_opens_it(self) -> None:
        rebase()
        assert_counts({"orders:a": 8})
        append(a=1)
        assert roll_up().entries == 1
        assert totals() == {"orders:a": 9}
        assert state().fenced == ""

    @pytest.mark.postgres
    def test_another_server_is_known_by_its_number(self) -> None:
        append(a=5)
        CounterHorizon.objects.update(cluster=12345)
        with pytest.raises(LedgerFenced):
            rollup()
        rebase()
        assert_counts({"orders:a": 5})
        assert CounterHorizon.objects.get().cluster != 12345

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
