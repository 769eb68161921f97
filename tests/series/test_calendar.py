"""Periods as the clocks of a time zone show them, also on the days on which they are set."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, time, timedelta, timezone, tzinfo
from itertools import pairwise
from random import Random
from zoneinfo import ZoneInfo, available_timezones

from hypothesis import example, given
from hypothesis import strategies as st

from django_counters.contrib.series.calendar import PERIODS, beginnings, period_of

BERLIN = ZoneInfo("Europe/Berlin")
KOLKATA = ZoneInfo("Asia/Kolkata")
# Its clocks are set by half an hour.
LORD_HOWE = ZoneInfo("Australia/Lord_Howe")
# Its clocks were set at midnight, until 2019.
SAO_PAULO = ZoneInfo("America/Sao_Paulo")
# It left out a whole day, the 30th of December 2011.
APIA = ZoneInfo("Pacific/Apia")
# They were set in the middle of an hour: to another half an hour, and a minute after midnight.
CARACAS, PYONGYANG = ZoneInfo("America/Caracas"), ZoneInfo("Asia/Pyongyang")
ST_JOHNS = ZoneInfo("America/St_Johns")
NEW_YORK = ZoneInfo("America/New_York")
ZONES: list[tzinfo] = [
    UTC,
    BERLIN,
    KOLKATA,
    LORD_HOWE,
    SAO_PAULO,
    NEW_YORK,
    ZoneInfo("Asia/Kathmandu"),
    ZoneInfo("Pacific/Chatham"),
    ZoneInfo("Africa/Casablanca"),
    APIA,
    CARACAS,
    PYONGYANG,
    timezone(timedelta(hours=-3, minutes=-17)),
]
LENGTHS = {"minute": timedelta(minutes=1), "hour": timedelta(hours=1)}
INSTANT = timedelta(microseconds=1)


def at(text: str, zone: tzinfo = UTC, fold: int = 0) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=zone, fold=fold)


moments = st.datetimes(
    datetime(2010, 1, 1),  # noqa: DTZ001
    datetime(2037, 12, 31),  # noqa: DTZ001
    timezones=st.just(UTC),
)
# Where it happens: the nights on which clocks are set.
jumps = st.sampled_from(
    [
        at("2024-03-31T01:00"),
        at("2024-10-27T01:00"),
        at("2024-10-05T15:30"),
        at("2024-04-06T15:00"),
        at("2018-11-04T03:00"),
        at("2018-02-18T02:00"),
        at("2024-03-10T07:00"),
        at("2024-11-03T06:00"),
        at("2011-12-30T10:00"),
        at("2016-05-01T07:00"),
        at("2018-05-04T15:00"),
    ]
)
near_jumps = st.builds(
    lambda jump, by: jump + by, jumps, st.timedeltas(timedelta(days=-2), timedelta(days=2))
)
spans = st.timedeltas(INSTANT, timedelta(days=3)) | st.sampled_from(
    [timedelta(minutes=1), timedelta(hours=1), timedelta(days=1), timedelta(days=40)]
)
# Few enough of them to be made quickly.
CAP = {"minute": timedelta(hours=6), "hour": timedelta(days=10)}


@example("hour", at("2016-05-01T06:30"), timedelta(hours=3), CARACAS)
@example("hour", at("2018-05-04T14:30"), timedelta(hours=3), PYONGYANG)
@example("hour", at("2010-11-07T02:30"), timedelta(hours=2), ST_JOHNS)
@example("day", at("2011-12-29T10:00"), timedelta(days=3), APIA)
@example("minute", at("2024-03-31T00:30"), timedelta(hours=1), BERLIN)
@given(st.sampled_from(PERIODS), near_jumps | moments, spans, st.sampled_from(ZONES))
def test_periods_follow_each_other_and_leave_nothing_out(
    by: str, since: datetime, span: timedelta, zone: tzinfo
) -> None:
    until = since + min(span, CAP.get(by, span))
    found = list(beginnings(by, since, until, zone))
    assert all(earlier < later for earlier, later in pairwise(found))
    # The first one holds `since`, and the one after the last holds `until` or begins there.
    assert found[0] <= since < [*found, until][1]
    assert found[-1] < until
    assert until <= next(after(by, found[-1], zone))
    for moment in found:
        check_beginning(by, moment, zone)


def after(by: str, begins: datetime, zone: tzinfo) -> Iterator[datetime]:
    """The periods that follow one."""
    following = beginnings(by, begins, begins + timedelta(days=64), zone)
    next(following)
    return following


def check_beginning(by: str, moment: datetime, zone: tzinfo) -> None:
    """A period begins where the clock shows a full one, or where it is set."""
    local = moment.astimezone(zone)
    is_set = local.utcoffset() != (moment - INSTANT).astimezone(zone).utcoffset()
    length = next(after(by, moment, zone)) - moment
    if by in LENGTHS:
        assert length <= LENGTHS[by]
        assert is_set or (local.second, local.microsecond) == (0, 0)
        assert is_set or by == "minute" or local.minute == 0
        return
    assert is_set or local.time() == time()
    assert by != "week" or local.weekday() == 0 or is_set
    assert by != "month" or local.day == 1
    # The moment before it belonged to another one.
    assert (moment - INSTANT).astimezone(zone).date() < local.date()


FIRST, LAST = datetime(2000, 1, 1, tzinfo=UTC), datetime(2035, 12, 31, tzinfo=UTC)
# No zone sets its clocks and sets them back within a time that is shorter.
STEP = timedelta(days=4)
STEPS = [FIRST + STEP * number for number in range((LAST - FIRST) // STEP + 1)]


def changes_of(zone: tzinfo) -> list[datetime]:
    """When the clocks of a zone are set, from 2000 to 2035, to the second."""
    offsets = [moment.astimezone(zone).utcoffset() for moment in STEPS]
    return [
        _change(low, high, zone)
        for (low, before), (high, after) in pairwise(zip(STEPS, offsets, strict=True))
        if before != after
    ]


def _change(low: datetime, high: datetime, zone: tzinfo) -> datetime:
    offset = low.astimezone(zone).utcoffset()
    while high - low > timedelta(seconds=1):
        middle = low + (high - low) // timedelta(seconds=1) // 2 * timedelta(seconds=1)
        same = middle.astimezone(zone).utcoffset() == offset
        low, high = (middle, high) if same else (low, middle)
    return high


def test_every_zone_and_every_change_of_its_clocks() -> None:
    """Each instant is in one period of each kind, and shorter periods make up longer ones.

    Looked at are the days around each change of each zone, two instants beside it, and random ones:
    elsewhere clocks only go on. Zones whose clocks are set alike at a moment, from the same offset
    to the same offset, show the same days around it, and are looked at once for each such moment.
    """
    random = Random(35)
    seen: set[tuple[object, ...]] = set()
    zones = [ZoneInfo(name) for name in sorted(available_timezones())]
    assert len(zones) > 400
    for zone in zones:
        for change in changes_of(zone):
            before, after = (
                (change + by).astimezone(zone).utcoffset() for by in (-INSTANT, INSTANT)
            )
            alike = (change, before, after)
            if alike not in seen:
                seen.add(alike)
                check_around(change, zone)
        check_instant(FIRST + (LAST - FIRST) * random.random(), zone)
    assert len(seen) > 1000


def check_around(change: datetime, zone: tzinfo) -> None:
    for instant in (change - INSTANT, change):
        check_instant(instant, zone)
    since, until = change - timedelta(days=1), change + timedelta(days=1)
    days = [*beginnings("day", since, until, zone)]
    hours = [*beginnings("hour", days[0], until, zone)]
    # So the hours of a day sum to the day.
    assert set(days) <= set(hours), (zone, change)
    # Minutes take long: a quarter of an hour around the change is what could differ.
    near = [hour for hour in hours if abs(hour - change) < timedelta(hours=1)]
    for hour in near:
        assert hour in beginnings("minute", hour - timedelta(minutes=1), hour + INSTANT, zone)


def check_instant(instant: datetime, zone: tzinfo) -> None:
    """It is in the period that begins last, and that ends later; which begins with a day."""
    for by in PERIODS:
        start, end = period_of(by, instant, zone)
        assert start <= instant < end, (by, instant, zone)
        # Whoever asks from the start or from before finds the same.
        assert period_of(by, start, zone) == (start, end), (by, instant, zone)
        assert period_of(by, end - INSTANT, zone) == (start, end), (by, instant, zone)
        assert period_of(by, start - INSTANT, zone)[1] == start, (by, instant, zone)
        if by in ("week", "month"):
            assert period_of("day", start, zone)[0] == start, (by, instant, zone)
