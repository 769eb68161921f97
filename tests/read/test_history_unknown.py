"""What nobody wrote down is not made up."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from django_counters import UnsupportedHistory, clock
from django_counters.models import Counter, CounterDelta
from django_counters.testing import override_counters
from django_counters.upkeep.recording import record_history
from tests.settling import roll_up

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("cached")]
HOUR = timedelta(hours=1)
ASKED: tuple[Callable[[str], object], ...] = (
    lambda key: Counter.objects.value_at(key, clock.utc() - HOUR),
    Counter.objects.history,
)


@pytest.mark.parametrize("ask", ASKED)
@pytest.mark.parametrize("strategy", ["exact", "sharded", "cached"])
def test_only_a_ledger_has_a_past(ask: Callable[[str], object], strategy: str) -> None:
    with override_counters(sales={"STRATEGY": strategy, "HISTORY": "1h"}):
        for count in (lambda: None, lambda: Counter.objects.increment("sales:a", 5)):
            count()
            record_history()
            with pytest.raises(UnsupportedHistory) as caught:
                ask("sales:a")
    assert (caught.value.key, caught.value.strategy) == ("sales:a", strategy)


@pytest.mark.parametrize("ask", ASKED)
def test_a_ledger_has_one_before_its_first_entry(ask: Callable[[str], object]) -> None:
    with override_counters(sales={"STRATEGY": "ledger"}):
        ask("sales:a")


@pytest.mark.parametrize("ask", ASKED)
@pytest.mark.django_db(transaction=True)
def test_entries_are_known_whatever_the_namespace_declares(ask: Callable[[str], object]) -> None:
    CounterDelta.objects.append("sales:a", 5)
    ask("sales:a")
    roll_up()
    ask("sales:a")
