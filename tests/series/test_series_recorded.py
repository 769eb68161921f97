"""The series of recorded totals: how much they differ, and what of them is not known."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

import pytest

from django_counters import clock
from django_counters.contrib import series
from django_counters.contrib.series import Bucket
from django_counters.contrib.series.models import CounterSample
from django_counters.contrib.series.recording import record_history
from django_counters.errors import HistoryNotKept, InvalidPeriod, UnsupportedSeries
from django_counters.models import Counter
from tests.series.counting import (
    BERLIN,
    DAY,
    HOUR,
    KOLKATA,
    MIDNIGHT,
    NOON,
    NOW,
    ask,
    objects,
    values,
)

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("by_period")]
KEY, OTHER = "views:a", "views:b"


@pytest.fixture(autouse=True)
def _declared(override_counters: Callable[..., None]) -> None:
    override_counters(
        views={"HISTORY": "1h"},
        sales={"HISTORY": "1d"},
        both={"HISTORY": "1h", "PER": ["hour"]},
    )


def sample(moment: datetime, value: int, key: str = KEY) -> None:
    CounterSample.objects.create(key=key, moment=moment, value=value)


@pytest.fixture
def views() -> None:
    for hours, value in ((50, 10), (30, 14), (3, 20), (1, 17)):
        sample(NOON - hours * HOUR, value)


@pytest.mark.usefixtures("views")
class TestAsked:
    def test_each_period_has_its_difference(self) -> None:
        hours = ask(KEY).per("hour").last(5)
        assert values(hours) == [0, 6, 0, -3, 0]
        assert (hours.total(), [point.end for point in hours][-1]) == (3, NOON + HOUR)
        # The first one recorded began on the first of May at ten.
        assert values(ask(KEY).per("day").between(MIDNIGHT - DAY)) == [4, 3]

    def test_by_the_clocks_of_others_where_hours_make_up_days(self) -> None:
        (today,) = ask(KEY).per("day").last(1).tz(BERLIN)
        assert (today.start, today.value) == (MIDNIGHT - 2 * HOUR, 3)
        with pytest.raises(InvalidPeriod):
            ask(KEY).per("day").last(1).tz(KOLKATA).list()

    def test_several_counters(self) -> None:
        sample(NOON - 9 * HOUR, 1, OTHER)
        sample(NOON, 8, OTHER)
        both = series.of([KEY, OTHER]).per("hour").last(4)
        assert values(both) == [6, 0, -3, 7]
        assert {key: values(found) for key, found in both.each().items()} == {
            KEY: [6, 0, -3, 0],
            OTHER: [0, 0, 0, 7],
        }
        # One of them is not known so long.
        with pytest.raises(HistoryNotKept):
            series.of([KEY, OTHER]).per("hour").last(12).list()
        with pytest.raises(UnsupportedSeries, match="views:c"):
            series.of([KEY, "views:c"]).per("hour").last(2).list()

    def test_history_tells_the_same(self) -> None:
        found = series.history(KEY, since=NOON - HOUR, until=NOW)
        assert found == [
            Bucket(NOON - HOUR, NOON, -3, None),
            Bucket(NOON, NOON + HOUR, 0, None),
        ]


class TestNotKnown:
    def test_what_was_before_the_second_period(self, views: None) -> None:
        since = NOON - 49 * HOUR
        hours = ask(KEY).per("hour")
        assert hours.between(since).total() == 7
        for refused in (
            hours.between(since - HOUR).list,
            hours.last("3d").total,
            ask(KEY).per("week").last(1).list,
            ask(KEY).total,
            lambda: series.history(KEY, "day"),
        ):
            with pytest.raises(HistoryNotKept) as caught:
                refused()
            assert (caught.value.key, caught.value.since) == (KEY, since)
        assert hours.last("3d").partial().total() == 7
        assert ask(KEY).per("week").last(1).partial().total() == 7
        assert ask(KEY).partial().total() == 7

    def test_hours_of_days(self) -> None:
        for days in range(3):
            sample(MIDNIGHT - days * DAY, 10 - days, "sales:a")
        assert values(ask("sales:a").per("day").last(2)) == [1, 1]
        with pytest.raises(InvalidPeriod):
            ask("sales:a").per("hour").last(2).list()

    def test_tags(self) -> None:
        for call in (lambda: ask(KEY).by("country"), lambda: ask(KEY).where(country="DE")):
            with pytest.raises(UnsupportedSeries, match="have no tags"):
                call()


def test_cells_win_where_there_are_both() -> None:
    sample(NOON - 2 * HOUR, 100, "both:a")
    sample(NOON, 900, "both:a")
    objects.increment("both:a", 4, at=NOON - HOUR)
    assert values(ask("both:a").per("hour").last(3)) == [0, 4, 0]
    assert series.history("both:a", since=NOON)[0].change == 0


def test_what_a_run_records_is_in_the_series(monkeypatch: pytest.MonkeyPatch) -> None:
    for hour, by in enumerate((5, 3, 4)):
        moment = NOON + hour * HOUR + timedelta(minutes=55)
        monkeypatch.setattr(clock, "utc", lambda moment=moment: moment)
        Counter.objects.increment(KEY, by)
        record_history()
    assert values(ask(KEY).per("hour").last(2)) == [3, 4]
