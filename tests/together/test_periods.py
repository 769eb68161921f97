"""Occurrences and quotas beside ranks, holds, actors that count once, and distinct actors."""

from __future__ import annotations

from typing import Any

import pytest

from django_counters import QuotaExceeded
from django_counters.contrib import holds, series, top, uniques
from django_counters.contrib.series import Occurred
from django_counters.models import Counter
from django_counters.testing import override_counters
from tests.series.cells import land

pytestmark = pytest.mark.django_db(transaction=True)
CACHED: dict[str, Any] = {
    "STRATEGY": "cached",
    "OPTIONS": {"timeout": 10},
    "PER": ["hour"],
    "OCCURRENCES": ["day"],
    "TAGS": {"country": 2},
    "TOP": ["day"],
}


@pytest.mark.usefixtures("cached")
def test_ranks_beside_occurrences_are_of_amounts() -> None:
    """Also where a landing makes them."""
    with override_counters(hits=CACHED):
        for by in (5, 7):
            Counter.objects.increment("hits:a", by)
        land()
        assert top.place(series.of("hits:a").per("day")).value == 12
        assert series.of("hits:a").occurred() == Occurred(2, 12)


def test_a_hold_is_an_occurrence_and_so_is_what_it_gives_back() -> None:
    with override_counters(stock={"OCCURRENCES": ["day"]}):
        Counter.objects.increment("stock:a", 10)
        holds.hold("stock:a", 4, minutes=5).commit()
        assert series.of("stock:a").occurred() == Occurred(2, 6)
        holds.hold("stock:a", 4, minutes=5).commit(3)
        assert series.of("stock:a").occurred() == Occurred(4, 3)


@pytest.mark.parametrize("name", ["exact", "sharded"])
def test_an_actor_who_has_counted_already_is_no_occurrence(name: str) -> None:
    declared = {"STRATEGY": name, "ONCE": True, "OCCURRENCES": ["day"]}
    with override_counters(likes=declared):
        for who in ("ann", "bob", "ann"):
            Counter.objects.increment("likes:a", who=who)
        for _ in range(2):
            Counter.objects.decrement("likes:a", who="ann")
        assert series.of("likes:a").occurred() == Occurred(3, 1)


def test_a_quota_beside_distinct_actors() -> None:
    """Members of sets cannot be part of the statement that asks the quota."""
    with override_counters(calls={"CEILING": {"day": 2}, "UNIQUE": ["day"], "TOP": ["day"]}):
        for who in ("ann", "bob"):
            Counter.objects.increment("calls:acme", who=who)
        with pytest.raises(QuotaExceeded) as refused:
            Counter.objects.increment("calls:acme", who="eve")
        assert refused.value.available == 0
        assert Counter.objects.value("calls:acme") == 2
        assert [day.value for day in series.of("calls:acme").per("day").last(1)] == [2]
        assert uniques.count(series.of("calls:acme").last("1d")) == 2
