"""Holds of counters with periods, ranks and quotas."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from django_counters import QuotaExceeded
from django_counters.contrib import holds, series
from django_counters.contrib.holds.errors import UnsupportedHold
from django_counters.contrib.holds.models import CounterHold
from django_counters.contrib.holds.upkeep import expire_holds
from django_counters.contrib.top import CounterRank
from django_counters.models import Counter
from django_counters.testing import override_counters
from tests.holds.conftest import pass_time
from tests.testapp.models import Member
from tests.together.counting import KEY

pytestmark = pytest.mark.django_db(transaction=True)
PERIODS: dict[str, Any] = {"FLOOR": 0, "PER": ["day"], "TAGS": {"model": 2}}
QUOTA = {"CEILING": {"month": 100, "day": 40}, "TAGS": {"model": 2}}


@pytest.fixture
def _quota() -> Iterator[None]:
    with override_counters(c=QUOTA):
        yield


def used(period: str = "day") -> int:
    return {one.period: one.used for one in series.quotas(KEY)}[period]


@pytest.mark.usefixtures("_quota")
def test_a_counter_with_a_quota_cannot_be_held() -> None:
    """It may come back in another period: there it would be counted, and here it would be room."""
    Counter.objects.increment(KEY, 40)
    with pytest.raises(UnsupportedHold, match="it has a quota"):
        holds.hold(KEY, 5)
    with pytest.raises(UnsupportedHold):
        holds.hold(Member.objects.create().requests, 1)
    assert not CounterHold.objects.exists()


@pytest.mark.usefixtures("_quota")
def test_what_was_held_before_the_quota_always_comes_back() -> None:
    with override_counters(c=PERIODS):
        Counter.objects.increment(KEY, 50)
        first, second, third = (holds.hold(KEY, 5) for _ in range(3))
    Counter.objects.increment(KEY, 5)
    assert first.release()
    assert Counter.objects.value(KEY) == used() == 45
    row = holds.release(second.token, reason="the customer is gone", actor="boss")
    assert row.after == used() == 50
    assert third.commit(quantity=2).state == "committed"
    assert Counter.objects.value(KEY) == used() == 53
    with pytest.raises(QuotaExceeded):
        Counter.objects.increment(KEY)


@pytest.mark.parametrize("declared", [PERIODS, {**PERIODS, "TOP": ["day"], "OCCURRENCES": ["day"]}])
def test_periods_and_ranks_have_what_is_taken_and_what_comes_back(declared: dict[str, Any]) -> None:
    def amounts() -> set[int]:
        ranks = CounterRank.objects.filter(key=KEY).values_list("value", flat=True)
        counts = series.of(KEY).per("day").last(1)
        return {Counter.objects.value(KEY), counts.total(), *ranks}

    with override_counters(c=declared):
        Counter.objects.increment(KEY, 10, tags={"model": "a"})
        back, parted, late = (holds.hold(KEY, by) for by in (4, 5, 1))
        assert amounts() == {0}
        assert back.release()
        assert amounts() == {4}
        parted.commit(quantity=2)
        assert amounts() == {7}
        pass_time()
        assert expire_holds() == 1
        assert amounts() == {8}
        assert holds.find(late.token).state == "expired"
        assert CounterRank.objects.exists() == ("TOP" in declared)
        by = series.of(KEY).per("day").last(1).by("model").total()
        assert {tag: amount for tag, amount in by.items() if amount} == {"a": 10, None: -2}
