"""A period that is declared later is not asked for the time before."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, ClassVar
from zoneinfo import ZoneInfo

import pytest
from django.utils import timezone

from django_counters import clock
from django_counters.contrib import series, top, uniques
from django_counters.errors import HistoryNotKept
from django_counters.models import Counter, CounterMeasure
from django_counters.registry import registry
from django_counters.testing import override_counters

pytestmark = pytest.mark.django_db(transaction=True)
DAY = timedelta(days=1)


def _declared_ago(period: str, ago: timedelta) -> None:
    """As if a period had been declared some time ago."""
    row = CounterMeasure.objects.get(name="hits")
    row.periods[period] = (clock.utc() - ago).isoformat()
    row.save()
    registry.forget_strategies()


def test_a_longer_one_is_read_from_shorter_ones_until_it_is_complete() -> None:
    now = clock.utc()
    with override_counters(hits={"PER": ["day"]}):
        for days in range(1, 40):
            Counter.objects.increment("hits:a", at=now - days * DAY)
    with override_counters(hits={"PER": ["day", "month"]}):
        Counter.objects.increment("hits:a")
        counts = series.of("hits:a")
        assert counts.total() == 40
        assert sum(point.value for point in counts.per("month").last(3).list()) == 40
        # As soon as a whole one was counted it answers, for the time since.
        _declared_ago("month", 70 * DAY)
        (present,) = counts.per("month").last(1).list()
        assert present.value < 40


def test_a_shorter_one_is_not_known_before() -> None:
    with override_counters(hits={"PER": ["day"]}):
        Counter.objects.increment("hits:a")
    with override_counters(hits={"PER": ["hour", "day"]}):
        Counter.objects.increment("hits:a")
        with pytest.raises(HistoryNotKept):
            series.of("hits:a").per("hour").last(5).list()
        _declared_ago("hour", 10 * timedelta(hours=1))
        found = series.of("hits:a").per("hour").last(5).list()
        assert sum(point.value for point in found) == 1


def test_one_that_was_left_out_for_a_time_begins_anew() -> None:
    with override_counters(hits={"PER": ["hour", "day"]}):
        Counter.objects.increment("hits:a")
    with override_counters(hits={"PER": ["day"]}):
        Counter.objects.increment("hits:a")
    with override_counters(hits={"PER": ["hour", "day"]}):
        Counter.objects.increment("hits:a")
        assert CounterMeasure.objects.get(name="hits").periods["hour"]
        (today,) = series.of("hits:a").per("day").last(1).list()
        assert today.value == 3


def test_those_that_were_declared_together_are_known_from_the_beginning() -> None:
    ago = datetime(2026, 1, 15, tzinfo=ZoneInfo("UTC"))
    with override_counters(hits={"PER": ["day", "month"]}):
        Counter.objects.increment("hits:a", 7, at=ago)
        zone = timezone.get_default_timezone()
        since, until = datetime(2026, 1, 1, tzinfo=zone), datetime(2026, 2, 1, tzinfo=zone)
        (january,) = series.of("hits:a").per("month").between(since, until).list()
        assert january.value == 7


class TestPartial:
    """`partial()` returns the stored counts if a complete answer is refused."""

    LATER: ClassVar[dict[str, Any]] = {
        "PER": ["minute", "month"],
        "TAGS": {"country": 9},
        "TOP": ["month"],
        "UNIQUE": ["month"],
        "OCCURRENCES": ["month"],
    }
    READS: ClassVar[dict[str, tuple[Callable[[Any], Any], object]]] = {
        "top": (lambda month: [row.value for row in top.largest(month)], [5]),
        "top by tag": (
            lambda month: [row.value for row in top.largest(month.where(country="DE"))],
            [5],
        ),
        "rising": (
            lambda month: [(r.value, r.before) for r in top.largest(month, against=1)],
            [(5, 0)],
        ),
        "place": (lambda month: (top.place(month).place, top.place(month).value), (1, 5)),
        "list": (lambda month: [point.value for point in month.last(2).list()], [0, 8]),
        "each": (lambda month: month.last(1).each()["hits:a"][0].value, 8),
        "total": (lambda month: month.last(1).total(), 8),
        "starts": (lambda month: len(month.last(2).starts()), 3),
        "unique": (lambda month: uniques.count(month.last(1)), 1),
        "uniques": (lambda month: [point.value for point in uniques.points(month.last(2))], [0, 1]),
        "occurred": (lambda month: month.last(1).occurred().number, 1),
        "occurrences": (lambda month: [one.number for one in month.last(2).occurrences()], [0, 1]),
        "by": (lambda month: month.last(1).by("country").total(), {"DE": 5, None: 3}),
        "unique by": (lambda month: uniques.count_by(month.last(1).by("country")), {"DE": 1}),
    }

    @pytest.mark.parametrize("name", READS)
    def test_a_declaration_of_today_answers_since_then(self, name: str) -> None:
        read, expected = self.READS[name]
        with override_counters(hits={"PER": ["minute"]}):
            Counter.objects.increment("hits:a", 3)
        registry.forget_strategies()
        with override_counters(hits={**self.LATER, "KEEP": {"minute": 1}}):
            Counter.objects.increment("hits:a", 5, tags={"country": "DE"}, who="ann")
            month = series.of("hits:a").per("month")
            with pytest.raises(HistoryNotKept):
                read(month)
            assert read(month.partial()) == expected

    def test_without_a_period_all_that_is_kept_answers(self) -> None:
        with override_counters(hits={"PER": ["minute"], "KEEP": {"minute": 1}}):
            Counter.objects.increment("hits:a", 5)
            for counts in (
                series.of("hits:a"),
                series.of("hits:a").last("3d"),
            ):
                with pytest.raises(HistoryNotKept):
                    counts.total()
                assert counts.partial().total() == 5

    def test_all_of_the_time_is_the_same(self) -> None:
        with override_counters(hits={"PER": ["day"]}):
            Counter.objects.increment("hits:a", 3)
            counts = series.of("hits:a").per("day").last(3)
            assert counts.partial().list() == counts.list()

    def test_a_ledger_reads_its_entries_first(self) -> None:
        with override_counters(hits={"STRATEGY": "ledger"}):
            Counter.objects.increment("hits:a", 3)
        registry.forget_strategies()
        with override_counters(hits={"STRATEGY": "ledger", "PER": ["day"]}):
            Counter.objects.increment("hits:a", 5)
            assert series.of("hits:a").per("day").last(1).partial().total() == 8
            # Entries have no tags, and cells are known since a moment ago.
            with override_counters(
                hits={"STRATEGY": "ledger", "PER": ["day"], "TAGS": {"country": 9}}
            ):
                split = series.of("hits:a").per("day").last(1).by("country")
                with pytest.raises(HistoryNotKept):
                    split.total()
                assert split.partial().total() == {None: 5}
