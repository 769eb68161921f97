"""The rollup of the ledger: each entry is folded once, whatever happens."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection, transaction

from django_counters.exceptions import CounterOverflow
from django_counters.models import (
    Counter,
    CounterDelta,
    CounterHorizon,
    CounterIncident,
    CounterShard,
)
from django_counters.testing import assert_counts
from django_counters.types import INT8
from django_counters.upkeep.doctor import examine
from django_counters.upkeep.ledger import rebase, state
from django_counters.upkeep.rollup import Report, rollup
from django_counters.upkeep.verify import verify
from tests.settling import roll_up
from tests.testapp.models import Song

pytestmark = pytest.mark.django_db(transaction=True)
LOWEST, HIGHEST = INT8
Elsewhere = Callable[[Callable[[], Any]], Any]


@pytest.fixture(autouse=True)
def _ledger(override_counters: Callable[..., None]) -> None:
    override_counters(orders={"STRATEGY": "ledger"}, likes={"STRATEGY": "sharded"})


def append(**deltas: int) -> None:
    """One entry for each counter of the namespace of orders."""
    for name, by in deltas.items():
        CounterDelta.objects.append(f"orders:{name}", by)


def totals() -> dict[str, int]:
    return dict(Counter.objects.values_list("key", "value"))


@contextmanager
def opened(elsewhere: Elsewhere) -> Iterator[None]:
    """A transaction of somebody else, open until the block ends."""
    block = transaction.atomic()
    elsewhere(block.__enter__)
    try:
        yield
    finally:
        elsewhere(lambda: block.__exit__(None, None, None))


class TestRollup:
    def test_what_waits_becomes_the_total(self) -> None:
        Counter.objects.create(key="orders:a", value=100)
        append(a=1, b=-2)
        append(a=5)
        report = roll_up()
        assert report == Report(entries=3, counters=2)
        assert totals() == {"orders:a": 106, "orders:b": -2}
        assert_counts({"orders:a": 106, "orders:b": -2})
        # Entries stay: they are the history.
        assert CounterDelta.objects.count() == 3

    def test_a_second_one_finds_nothing(self) -> None:
        append(a=1)
        roll_up()
        assert roll_up() == Report()
        assert totals() == {"orders:a": 1}

    def test_it_takes_what_came_since(self) -> None:
        for turn in range(1, 5):
            append(a=turn, b=1)
            assert roll_up().entries == 2
        assert totals() == {"orders:a": 10, "orders:b": 4}

    def test_entries_that_come_to_nothing_are_folded_too(self) -> None:
        append(a=5)
        append(a=-5)
        assert roll_up() == Report(entries=2, counters=1)
        assert totals() == {"orders:a": 0}
        assert examine() == []

    def test_shards_slots_and_entries_in_one_go(self) -> None:
        song = Song.objects.create()
        song.plays.increment(2)
        CounterShard.objects.increment("orders:a", 10)
        append(a=1)
        labels: list[str] = []
        report = roll_up(progress=lambda label, _: labels.append(label))
        assert (report.rows, report.entries, report.counters) == (2, 1, 3)
        assert labels[-1] == "ledger"
        assert totals() == {"orders:a": 11}
        assert verify().drifts == []

    def test_a_dry_run_changes_nothing(self) -> None:
        append(a=1, b=1)
        assert rollup(dry_run=True) == Report(waiting=2)
        assert totals() == {"orders:a": 0, "orders:b": 0}
        assert CounterHorizon.objects.get().horizon == 0

    def test_one_that_is_undone_has_folded_nothing(self) -> None:
        append(a=1)
        with pytest.raises(ZeroDivisionError), transaction.atomic():
            rollup()
            raise ZeroDivisionError
        assert totals() == {"orders:a": 0}
        assert roll_up().entries == 1
        assert_counts({"orders:a": 1})

    def test_a_total_that_is_deleted_takes_no_entry_with_it(self) -> None:
        """Those that wait are folded into the next one, whoever makes it."""
        CounterDelta.objects.append("made", 5)
        append(a=5)
        Counter.objects.all().delete()
        Counter.objects.increment("made", 2)
        assert roll_up().entries == 2
        assert totals() == {"made": 7, "orders:a": 5}
        assert verify().drifts == []

    def test_the_time_of_the_last_change_moves(self) -> None:
        append(a=1)
        before = Counter.objects.get().updated_at
        roll_up()
        after = Counter.objects.get().updated_at
        assert after >= before
        roll_up()
        assert Counter.objects.get().updated_at == after

    @pytest.mark.django_db(transaction=True, databases=["default", "other"])
    def test_using_chooses_the_database(self) -> None:
        append(a=1)
        CounterDelta.objects.append("orders:a", 5, using="other")
        assert roll_up("other").entries == 1
        assert Counter.objects.using("other").get().value == 5
        assert totals() == {"orders:a": 0}


@pytest.mark.postgres
class TestOthers:
    def test_a_transaction_that_runs_keeps_what_is_later(self, elsewhere: Elsewhere) -> None:
        """Its number is smaller, so what it has not yet committed must not be passed over."""
        append(a=100)
        roll_up()
        with opened(elsewhere):
            elsewhere(lambda: append(a=1))
            append(a=10)
            report = rollup()
            assert (report.entries, report.waiting) == (0, 1)
            assert_counts({"orders:a": 110})
        assert_counts({"orders:a": 111})
        assert roll_up().entries == 2
        assert totals() == {"orders:a": 111}

    def test_the_doctor_says_who_it_is(self, elsewhere: Elsewhere) -> None:
        append(a=100)
        roll_up()
        with opened(elsewhere):
            elsewhere(lambda: append(a=1))
            append(a=10, b=10)
            rollup()
            (finding,) = [one for one in examine() if one.rows]
            assert (finding.subject, finding.rows, finding.counters) == ("ledger", 2, 2)
            assert "the oldest transaction is pid" in finding.action

    def test_one_roller_does_not_wait_for_another(self, elsewhere: Elsewhere) -> None:
        append(a=1)
        with opened(elsewhere):
            elsewhere(lambda: CounterHorizon.objects.select_for_update().get())
            assert rollup().entries == 0
        assert roll_up().entries == 1
        assert totals() == {"orders:a": 1}

    def test_readers_see_each_entry_once(self, elsewhere: Elsewhere) -> None:
        append(a=1, b=2)
        before = roll_up()
        append(a=10, b=20)
        with transaction.atomic():
            rollup()
            assert elsewhere(lambda: Counter.objects.value("orders:a")) == 11
        assert before.entries == 2
        assert_counts({"orders:a": 11, "orders:b": 22})


@pytest.mark.postgres
class TestOverflow:
    """Each entry fitted when it was appended; all of them together do not."""

    @pytest.fixture(autouse=True)
    def _full(self) -> None:
        Counter.objects.create(key="orders:full", value=HIGHEST - 10)
        append(full=8, other=1)
        append(full=8)
        append(full=8, other=1)

    def test_a_total_that_would_not_fit_harms_nobody_else(self) -> None:
        report = roll_up()
        assert (report.stuck, report.entries, report.waiting) == (["orders:full"], 2, 3)
        assert totals() == {"orders:full": HIGHEST - 10, "orders:other": 2}
        assert_counts({"orders:full": HIGHEST + 14, "orders:other": 2})

    def test_it_becomes_an_incident(self) -> None:
        roll_up()
        roll_up()
        (incident,) = CounterIncident.objects.all()
        assert (incident.kind, incident.subject) == ("overflow", "orders:full")

    def test_it_fits_again(self) -> None:
        roll_up()
        append(full=-100)
        assert_counts({"orders:full": HIGHEST - 86})
        for _ in range(2):
            roll_up()
            assert_counts({"orders:full": HIGHEST - 86})
        assert totals()["orders:full"] == HIGHEST - 86
        assert not CounterShard.objects.exists()

    def test_the_totals_are_no_younger_meanwhile(self) -> None:
        """They lack what waits."""
        before = CounterHorizon.objects.get().as_of
        for _ in range(3):
            roll_up()
        assert CounterHorizon.objects.get().as_of == before
        append(full=-100)
        for _ in range(2):
            roll_up()
        assert CounterHorizon.objects.get().as_of > before

    def test_it_is_no_drift(self) -> None:
        roll_up()
        assert verify().drifts == []

    def test_a_rebase_says_so_and_changes_nothing(self) -> None:
        for _ in range(2):
            with pytest.raises(CounterOverflow):
                rebase()
            assert_counts({"orders:full": HIGHEST + 14, "orders:other": 2})
            roll_up()

    def test_a_rebase_counts_nothing_twice(self) -> None:
        roll_up()
        append(full=-100)
        rebase()
        assert_counts({"orders:full": HIGHEST - 86, "orders:other": 2})


class TestState:
    def test_it_says_what_waits(self) -> None:
        append(a=1, b=1)
        append(a=1)
        found = state()
        assert (found.entries, found.counters, found.fenced) == (3, 2, "")
        (finding,) = examine()
        assert (finding.subject, finding.rows, finding.counters) == ("ledger", 3, 2)

    def test_it_says_how_old_the_totals_are(self) -> None:
        append(a=1)
        assert state().lag is None
        roll_up()
        roll_up()
        found = state()
        assert found.entries == 0
        assert found.lag is not None
        # The clock of SQLite has milliseconds.
        assert timedelta(milliseconds=-1) <= found.lag < timedelta(minutes=5)
        assert examine() == []

    def test_it_says_how_many_partitions_are_ahead(self) -> None:
        ahead = state().partitions_ahead
        assert ahead is None if connection.vendor == "sqlite" else (ahead or 0) >= 7
