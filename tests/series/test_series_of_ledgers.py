"""The series of counters that are in a ledger, and are counted by period later."""

from __future__ import annotations

from datetime import timedelta
from functools import partial

import pytest

from django_counters import clock
from django_counters.contrib import series
from django_counters.errors import HistoryNotKept, UnsupportedHistory, UnsupportedSeries
from django_counters.models import Counter, CounterPartition
from django_counters.testing import override_counters
from django_counters.tokens import mint
from django_counters.upkeep import make_measures
from tests.series.counting import values

pytestmark = pytest.mark.django_db
LEDGER = {"STRATEGY": "ledger"}
BY_DAY = {**LEDGER, "PER": ["hour", "day"], "TAGS": {"country": 5}}


@pytest.fixture
def counted() -> None:
    with override_counters(late=LEDGER):
        Counter.objects.increment("late:a", 7)
        Counter.objects.increment("late:a", 5, token=mint(clock.utc() - timedelta(days=1)))


@pytest.mark.parametrize("migrates", [True, False])
def test_entries_tell_what_was_counted_before_there_were_periods(
    counted: None, *, migrates: bool
) -> None:
    with override_counters(late=BY_DAY):
        if migrates:
            make_measures("default")
        counts = series.of("late:a").per("day").last(3)
        assert values(counts) == [0, 5, 7]
        assert len(counts.starts()) == 4
        assert [bucket.change for bucket in series.history("late:a", by="day")][-2:] == [
            5,
            7,
        ]
        # Cells alone know tags, and these do not know them yet.
        with pytest.raises(HistoryNotKept):
            counts.by("country").list()


def test_a_ledger_that_begins_with_periods_has_no_gap() -> None:
    with override_counters(early=BY_DAY):
        Counter.objects.increment("early:a", 7, tags={"country": "DE"})
        counts = series.of("early:a").per("day").last(3)
        assert values(counts) == [0, 0, 7]
        assert counts.by("country").total() == {"DE": 7}


def test_a_counter_that_was_in_a_ledger_has_the_same_series(counted: None) -> None:
    with override_counters(late={}):
        counts = series.of("late:a").per("day").last(3)
        assert values(counts) == [0, 5, 7]
        assert counts.starts() == [*(point.start for point in counts), counts.list()[-1].end]


def test_dropped_entries_concern_ledgers_alone() -> None:
    now = clock.utc()
    CounterPartition.objects.create(
        name="gone",
        since=now - timedelta(days=3),
        until=now - timedelta(days=2),
        entries=0,
        delta_sum=0,
        sealed_at=now,
        dropped_at=now,
    )
    with override_counters(orders=LEDGER, plain={}):
        Counter.objects.increment("plain:a")
        with pytest.raises(HistoryNotKept):
            series.of("orders:a").per("day").last(30).list()
        kept = series.of("orders:a").per("day").last(30).partial()
        assert kept.total() == sum(point.value for point in kept) == 0
        for key in ("plain:a", "nowhere"):
            counts = series.of(key).per("day").last(30)
            history = partial(series.history, key, by="day")
            for asks in (counts.list, counts.starts, history):
                with pytest.raises(UnsupportedSeries):
                    asks()
            with pytest.raises(UnsupportedHistory):
                Counter.objects.value_at(key, now - timedelta(days=3))
