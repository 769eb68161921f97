"""Series by clocks that show an hour twice, or skip one."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest

from django_counters import clock
from django_counters.contrib import series, top, uniques
from django_counters.models import Counter
from django_counters.testing import override_counters

pytestmark = pytest.mark.django_db
BERLIN = ZoneInfo("Europe/Berlin")
# At 01:00 of UTC the clocks of Berlin show 02:00 for the second time.
SET_BACK = datetime(2026, 10, 25, tzinfo=UTC)
MOMENTS = [SET_BACK + timedelta(minutes=15 * number) for number in range(16)]
LATER = timedelta(days=30)


@pytest.fixture(autouse=True)
def counted(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """One actor at each moment."""
    monkeypatch.setattr(clock, "utc", lambda: MOMENTS[-1] + timedelta(days=1))
    periods = ["minute", "hour", "day"]
    with override_counters(reads={"PER": periods, "UNIQUE": periods, "TOP": ["hour"]}):
        for number, moment in enumerate(MOMENTS):
            Counter.objects.increment("reads:a", at=moment, who=number)
        yield


@pytest.mark.parametrize("moment", MOMENTS)
def test_back_from_now_begins_in_an_hour_that_is_shown_twice(
    moment: datetime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clock, "utc", lambda: moment + LATER)
    since = [one for one in MOMENTS if one >= moment]
    counts = series.of("reads:a").last("30d").tz(BERLIN)
    assert counts.total() == uniques.count(counts) == len(since)


@pytest.mark.parametrize("zone", [UTC, BERLIN, ZoneInfo("America/Chicago")], ids=str)
@pytest.mark.parametrize("moment", MOMENTS[::4])
def test_moments_of_an_hour_that_is_shown_twice_bound_a_series(
    moment: datetime, zone: ZoneInfo
) -> None:
    since, until = moment.astimezone(BERLIN), (moment + timedelta(hours=1)).astimezone(BERLIN)
    counts = series.of("reads:a").between(since, until).tz(zone)
    assert counts.total() == uniques.count(counts) == 4
    assert [point.value for point in counts.per("hour")] == [4]
    hours = series.of(namespace="reads").per("hour")
    ranked = top.largest(hours.between(since, until), 3)
    assert [(one.key, one.value) for one in ranked] == [("reads:a", 4)]


def test_both_hours_are_points_of_their_own() -> None:
    since, until = MOMENTS[0].astimezone(BERLIN), (SET_BACK + timedelta(hours=4)).astimezone(BERLIN)
    points = series.of("reads:a").per("hour").between(since, until).tz(BERLIN).list()
    assert [point.value for point in points] == [4, 4, 4, 4]
    assert [point.start.hour for point in points] == [2, 2, 3, 4]
    assert [point.start.fold for point in points] == [0, 1, 0, 0]
    starts = [point.start.astimezone(UTC) for point in points]
    assert {after - before for before, after in pairwise(starts)} == {timedelta(hours=1)}
