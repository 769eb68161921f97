"""Rows of an app that have no period: its own projector makes them, beside series or alone."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Iterator
from datetime import UTC, timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import modify_settings
from django.test.utils import CaptureQueriesContext

from django_counters import clock
from django_counters.contrib.series.models import CounterCell
from django_counters.errors import QuotaExceeded
from django_counters.models import Counter
from django_counters.testing import override_counters
from django_counters.tokens import mint
from django_counters.upkeep import rollup
from tests.extension.weekdays.models import Cafe, Weekday
from tests.series.cells import STRATEGIES, land

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("cached")]
PERIODS: dict[str, Any] = {"PER": ["day"], "TAGS": {"country": 2}}
ABSENT = [f"django_counters.contrib.{name}" for name in ("series", "top", "uniques")]


@pytest.fixture(params=["beside series", "without series"])
def declared(request: pytest.FixtureRequest) -> Iterator[dict[str, Any]]:
    """The options of a counter with such rows, with periods as well or with none."""
    if request.param == "beside series":
        yield {"WEEKDAYS": True, **PERIODS}
    else:
        with modify_settings(INSTALLED_APPS={"remove": ABSENT}):
            yield {"WEEKDAYS": True}


def upkeep() -> None:
    land()
    rollup()


def numbers() -> dict[tuple[str, int], int]:
    """How often each counter was changed, by day of the week."""
    found: Tally[tuple[str, int]] = Tally()
    for row in Weekday.objects.all():
        found[row.key, row.weekday] += row.value
    return {where: number for where, number in found.items() if number}


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_each_change_is_one(strategy: str, declared: dict[str, Any]) -> None:
    now = clock.utc()
    expected: Tally[tuple[str, int]] = Tally()
    with override_counters(hits={"STRATEGY": strategy, **declared}):
        for days in (0, 0, 1, 3):
            at = now - timedelta(days=days)
            Counter.objects.increment("hits:a", 5, at=at)
            expected["hits:a", at.astimezone(UTC).isoweekday()] += 1
        token = mint(now)
        for _ in range(2):
            Counter.objects.increment("hits:a", 7, token=token, at=now)
        Counter.objects.decrement("hits:a", 2, at=now)
        expected["hits:a", now.astimezone(UTC).isoweekday()] += 2
        Counter.objects.increment_many({"hits:a": 1, "hits:b": 1})
        upkeep()
        assert Counter.objects.value("hits:a") == 26
    after = numbers()
    # The batch has no moment: it may have been made after midnight.
    assert sum(after.values()) - sum(expected.values()) == 2
    assert all(after[where] >= number for where, number in expected.items())


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("landed", [True, False], ids=["landed", "waiting"])
def test_they_are_forgotten_with_their_counter(
    strategy: str, landed: bool, declared: dict[str, Any]
) -> None:
    with override_counters(hits={"STRATEGY": strategy, **declared}):
        for key in ("hits:a", "hits:b"):
            Counter.objects.increment(key, 5)
        if landed:
            upkeep()
        assert Counter.objects.forget("hits:a") == 5
        upkeep()
        assert Counter.objects.value("hits:a") == 0
    assert {key: number for (key, _), number in numbers().items()} == {"hits:b": 1}


def test_they_go_with_their_record() -> None:
    gone, kept = Cafe.objects.create(), Cafe.objects.create()
    for cafe in (gone, kept):
        cafe.guests.increment(2)
    gone.delete()
    assert {key for key, _ in numbers()} == {str(kept.pk)}


def test_a_quota_beside_them_is_kept() -> None:
    with override_counters(hits={"WEEKDAYS": True, "CEILING": {"month": 5}}):
        Counter.objects.increment("hits:a", 5)
        with pytest.raises(QuotaExceeded):
            Counter.objects.increment("hits:a")
        Counter.objects.decrement("hits:a", 2)
        Counter.objects.increment_many({"hits:a": 2})
        assert Counter.objects.value("hits:a") == 5
    assert sum(numbers().values()) == 3
    assert sum(cell.value for cell in CounterCell.objects.all()) == 5


@pytest.mark.postgresql
def test_one_statement(declared: dict[str, Any]) -> None:
    with override_counters(hits=declared):
        # The first one also asks for the measure.
        Counter.objects.increment("hits:a")
        with CaptureQueriesContext(connection) as queries:
            Counter.objects.increment("hits:a")
    [statement] = [one["sql"] for one in queries]
    assert "django_counters_add_weekday(" in statement
