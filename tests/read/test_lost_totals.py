"""Entries count while the total of their counter is gone, and after a change made it again."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from django_counters import clock
from django_counters.errors import CeilingExceeded
from django_counters.features import Drift
from django_counters.models import Counter
from django_counters.testing import assert_counts, override_counters
from django_counters.upkeep import verify
from tests.settling import roll_up

pytestmark = pytest.mark.django_db(transaction=True)


def _delete() -> None:
    Counter.objects.filter(key="led:a").delete()


def _rename() -> None:
    Counter.objects.filter(key="led:a").update(key="led:z")


@pytest.mark.parametrize("lose", [_delete, _rename])
def test_pending_entries_count_without_a_total(lose: Callable[[], None]) -> None:
    with override_counters(led={"STRATEGY": "ledger"}):
        counters = Counter.objects
        counters.increment("led:a", 5)
        lose()
        assert counters.value("led:a") == 5
        assert counters.values_of(["led:a", "led:b"]) == {"led:a": 5, "led:b": 0}
        assert counters.read("led:a").value == 5
        assert counters.value_at("led:a", clock.now() + timedelta(minutes=1)) == 5
        assert counters.explain("led:a").value == 5
        assert Drift("led:a", expected=5, actual=0) in verify().drifts
        roll_up()
        assert_counts({"led:a": 5})


def _maximum() -> None:
    Counter.objects.maximum("led:a", 8)


def _exact() -> None:
    Counter.objects.increment("led:a", 3)


def _many() -> None:
    Counter.objects.increment_many({"led:a": 3, "led:b": 1})


def _zero_sum() -> None:
    with override_counters(led={"STRATEGY": "ledger"}):
        Counter.objects.increment("led:a", 3)


def _adjust() -> None:
    Counter.objects.adjust("led:a", by=3, reason="found", actor="ann")


def _set() -> None:
    Counter.objects.adjust("led:a", to=8, reason="found", actor="ann")


EXACT: dict[str, Any] = {"STRATEGY": "exact"}
FLOOR: dict[str, Any] = {"STRATEGY": "exact", "FLOOR": 0, "CEILING": 9}
SHARDED: dict[str, Any] = {"STRATEGY": "sharded"}
LEDGER: dict[str, Any] = {"STRATEGY": "ledger"}
SHARES: dict[str, Any] = {"STRATEGY": "sharded", "FLOOR": 0}


@pytest.mark.parametrize("declared", [EXACT, FLOOR, SHARDED, SHARES, LEDGER])
@pytest.mark.parametrize("change", [_exact, _many, _zero_sum, _adjust, _set, _maximum])
def test_a_change_of_a_lost_total_keeps_its_pending_entries(
    change: Callable[[], None], declared: dict[str, Any]
) -> None:
    if change is _maximum and declared is not EXACT and declared is not FLOOR:
        pytest.skip("maximum() is of exact counters")
    counters = Counter.objects
    with override_counters(led=LEDGER):
        counters.increment("led:a", 5)
    _delete()
    with override_counters(led=declared):
        change()
        _expect(8)
        roll_up()
        _expect(8)
        assert not verify().drifts


@pytest.mark.parametrize("declared", [EXACT, FLOOR, SHARDED, SHARES])
def test_a_result_has_pending_entries_of_a_lost_total(declared: dict[str, Any]) -> None:
    with override_counters(led=LEDGER):
        Counter.objects.increment("led:a", 5)
    _delete()
    with override_counters(led=declared):
        assert Counter.objects.increment("led:a", 3).value == 8
        assert Counter.objects.decrement("led:a", 2).value == 6


def test_a_lost_total_keeps_its_bounds() -> None:
    with override_counters(led=LEDGER):
        Counter.objects.increment("led:a", 5)
    _delete()
    with override_counters(led=FLOOR):
        with pytest.raises(CeilingExceeded):
            Counter.objects.increment("led:a", 5)
        Counter.objects.decrement("led:a", 5)
        _expect(0)


def _expect(value: int) -> None:
    """Compare all reads that know the ledger."""
    counters, later = Counter.objects, clock.now() + timedelta(minutes=1)
    assert counters.value("led:a") == value
    assert counters.values_of(["led:a"]) == {"led:a": value}
    assert counters.read("led:a").value == value
    assert counters.value_at("led:a", later) == value
    assert counters.explain("led:a").value == value
    lost = not counters.filter(key="led:a", outside__isnull=False).exists()
    found = [drift for drift in verify().drifts if drift.key == "led:a"]
    assert found == ([Drift("led:a", expected=5, actual=0)] if lost else [])
