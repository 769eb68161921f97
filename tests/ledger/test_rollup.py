"""The rollup of the ledger: each entry is folded once, whatever happens."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.db import transaction

from django_counters.errors import CounterOverflow
from django_counters.features import Verdict
from django_counters.ledger.upkeep import rebase
from django_counters.metrics.doctor import examine
from django_counters.models import (
    Counter,
    CounterDelta,
    CounterHorizon,
    CounterIncident,
    CounterShard,
)
from django_counters.testing import assert_counts
from django_counters.types import INT8
from django_counters.upkeep import rollup, verify
from tests.settling import roll_up

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


@pytest.mark.many_writers
class TestOthers:
    @pytest.mark.postgresql
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
            assert finding.verdict is Verdict.WARN


@pytest.mark.many_writers
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
        assert verify().drifts == []
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
