"""The small lines of the list, and what they are drawn from."""

from __future__ import annotations

from datetime import timedelta

import pytest

from django_counters import clock
from django_counters.contrib.series import admin as series_admin
from django_counters.contrib.series.admin import HOURS, recent_of
from django_counters.contrib.series.models import CounterSample
from django_counters.models import Counter
from django_counters.reading import readings_of
from django_counters.testing import override_counters
from django_counters.tokens import mint

LEDGER = {"STRATEGY": "ledger"}


@pytest.mark.django_db
class TestWhatItIsDrawnFrom:
    def line(self, key: str) -> list[int | None]:
        return recent_of(readings_of([key]), None)[key]

    def test_a_ledger(self) -> None:
        hour = clock.utc().replace(minute=30, second=0, microsecond=0)
        with override_counters(orders=LEDGER):
            for ago, by in ((40, 100), (3, 10), (3, 5), (2, -4)):
                token = mint(hour - timedelta(hours=ago))
                Counter.objects.increment("orders:eu", by, token=token)
            line = self.line("orders:eu")
        assert line == [100] * (HOURS - 3) + [115, 111, 111, 111]
        assert len(line) == HOURS + 1

    def test_recorded_totals(self) -> None:
        hour = clock.utc().replace(minute=0, second=0, microsecond=0)
        Counter.objects.increment("likes:a", 50)
        for ago, value in ((30, 1), (5, 20), (2, 40)):
            moment = clock.shown(hour - timedelta(hours=ago))
            CounterSample._base_manager.create(key="likes:a", moment=moment, value=value)
        with override_counters(likes={"HISTORY": "1h"}):
            line = self.line("likes:a")
        assert line == [None] * (HOURS - 5) + [20, 20, 20, 40, 40, 50]

    def test_where_nothing_is_written_down_nothing_is_known(self) -> None:
        moment = clock.shown(clock.utc() - timedelta(hours=2))
        CounterSample._base_manager.create(key="daily:a", moment=moment, value=1)
        with override_counters(daily={"HISTORY": "1d"}, hourly={"HISTORY": "1h"}):
            assert recent_of(readings_of(["plain", "daily:a", "hourly:a"]), None) == {}

    def test_a_ledger_with_too_many_entries_to_draw(self, monkeypatch: pytest.MonkeyPatch) -> None:
        with override_counters(orders=LEDGER):
            for _ in range(3):
                Counter.objects.increment("orders:eu")
            monkeypatch.setattr(series_admin, "MOST_ENTRIES", 3)
            assert self.line("orders:eu")
            monkeypatch.setattr(series_admin, "MOST_ENTRIES", 2)
            assert recent_of(readings_of(["orders:eu"]), None) == {}
