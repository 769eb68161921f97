"""What nobody wrote down is not made up."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest

from django_counters import HistoryNotKept, UnsupportedHistory, UnsupportedSeries, clock
from django_counters.contrib import series
from django_counters.contrib.series.recording import record_history
from django_counters.models import Counter, CounterDelta
from django_counters.testing import override_counters
from tests.settling import roll_up

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("cached")]
HOUR = timedelta(hours=1)
ASKED: tuple[Callable[[str], object], ...] = (
    lambda key: Counter.objects.value_at(key, clock.utc() - HOUR),
    series.history,
    lambda key: series.of(key).total(),
)


def count(key: str) -> None:
    Counter.objects.increment(key, 5)


@pytest.mark.parametrize("strategy", ["exact", "sharded", "cached"])
def test_only_a_ledger_knows_what_a_value_was(strategy: str) -> None:
    with override_counters(sales={"STRATEGY": strategy, "HISTORY": "1h"}):
        for by in (0, 5):
            if by:
                count("sales:a")
            record_history()
            with pytest.raises(UnsupportedHistory) as caught:
                ASKED[0]("sales:a")
    assert (caught.value.key, caught.value.strategy) == ("sales:a", strategy)


@pytest.mark.parametrize("ask", ASKED[1:])
@pytest.mark.parametrize("strategy", ["exact", "sharded", "cached"])
def test_without_anything_it_says_what_to_declare(
    ask: Callable[[str], object], strategy: str
) -> None:
    with override_counters(sales={"STRATEGY": strategy}):
        count("sales:a")
        with pytest.raises(UnsupportedSeries, match=r"PER.*HISTORY.*ledger"):
            ask("sales:a")


@pytest.mark.parametrize("ask", ASKED[1:])
def test_what_is_to_be_recorded_is_not_there_at_once(ask: Callable[[str], object]) -> None:
    with override_counters(sales={"HISTORY": "1h"}):
        count("sales:a")
        with pytest.raises(UnsupportedSeries, match="counters upkeep history"):
            ask("sales:a")
        record_history()
        with pytest.raises(HistoryNotKept) as caught:
            ask("sales:a")
        assert clock.now() < caught.value.since <= clock.now() + HOUR


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
