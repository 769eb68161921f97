"""The small lines of the list, and what they are drawn from."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from django_counters import clock
from django_counters.admin import recent
from django_counters.admin.recent import HOURS, recent_of
from django_counters.admin.sparkline import HEIGHT, WIDTH, sparkline
from django_counters.kinds.readings import readings_of
from django_counters.models import Counter, CounterSample
from django_counters.testing import override_counters
from django_counters.tokens import mint

LEDGER = {"STRATEGY": "ledger"}


def points(markup: str) -> list[tuple[float, float]]:
    found = re.search(r'points="([^"]*)"', markup)
    assert found, markup
    pairs = (pair.split(",") for pair in found[1].split())
    return [(float(x), float(y)) for x, y in pairs]


class TestTheLine:
    def test_it_goes_from_the_left_to_the_right_and_up_where_numbers_rise(self) -> None:
        line = points(sparkline([0, 5, 10], ""))
        assert [x for x, _ in line] == [0, WIDTH / 2, WIDTH]
        (low, middle, high) = [y for _, y in line]
        assert HEIGHT > low > middle > high > 0
        assert low - middle == middle - high

    def test_the_largest_numbers_fit(self) -> None:
        line = points(sparkline([-(2**63), 0, 2**63 - 1], ""))
        assert all(0 < y < HEIGHT for _, y in line)

    def test_the_same_number_is_a_line_in_the_middle(self) -> None:
        assert points(sparkline([7, 7], "")) == [(0, HEIGHT / 2), (WIDTH, HEIGHT / 2)]

    def test_what_is_not_known_at_first_is_left_out(self) -> None:
        assert [x for x, _ in points(sparkline([None, None, 3, 4], ""))] == [64, 96]

    @pytest.mark.parametrize("values", [[], [None, None], [None, 4]])
    def test_of_one_number_there_is_no_line(self, values: list[int | None]) -> None:
        assert sparkline(values, "x") == ""

    def test_the_label_is_text(self) -> None:
        markup = sparkline([1, 2], """"><script>alert('x')</script>""")
        assert markup.count("&quot;&gt;&lt;script&gt;alert(&#x27;x&#x27;)") == 2
        assert "<script" not in markup

    def test_it_names_itself_and_has_no_style(self) -> None:
        markup = sparkline([1, 2], "rising")
        assert 'role="img"' in markup
        assert 'aria-label="rising"' in markup
        assert "<title>rising</title>" in markup
        assert "style" not in markup


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

    def test_a_ledger_without_entries_has_not_changed(self) -> None:
        with override_counters(orders=LEDGER):
            assert self.line("orders:eu") == [0] * (HOURS + 1)

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
            monkeypatch.setattr(recent, "MOST_ENTRIES", 3)
            assert self.line("orders:eu")
            monkeypatch.setattr(recent, "MOST_ENTRIES", 2)
            assert recent_of(readings_of(["orders:eu"]), None) == {}

    def test_their_queries_are_the_same_for_many(self) -> None:
        keys = [f"{name}:{number}" for name in ("orders", "likes") for number in range(50)]
        with override_counters(orders=LEDGER, likes={"HISTORY": "1h"}):
            readings = readings_of(keys)
            with CaptureQueriesContext(connection) as queries:
                recent_of(readings, None)
        # The number of entries, the entries, the recorded totals.
        assert len(queries) == 3
