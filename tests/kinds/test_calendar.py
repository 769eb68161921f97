"""Periods as the clocks of a time zone show them, also on the days on which they are set."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, time, timedelta, timezone, tzinfo
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from django_counters.kinds.calendar import PERIODS, beginnings

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


def shown(by: str, since: datetime, until: datetime, zone: tzinfo) -> list[str]:
    """The beginnings, as a clock of the zone shows them."""
    return [
        moment.astimezone(zone).strftime("%m-%d %H:%M %z")
        for moment in beginnings(by, since, until, zone)
    ]


def hours_between(since: str, until: str, zone: tzinfo) -> list[float]:
    """How many hours each day has."""
    moments = list(beginnings("day", at(since, zone), at(until, zone), zone))
    return [(later - earlier) / timedelta(hours=1) for earlier, later in pairwise(moments)]


class TestHours:
    def test_each_begins_at_a_full_one(self) -> None:
        since, until = at("2024-05-01T10:15:30", BERLIN), at("2024-05-01T13:00", BERLIN)
        assert shown("hour", since, until, BERLIN) == [
            "05-01 10:00 +0200",
            "05-01 11:00 +0200",
            "05-01 12:00 +0200",
        ]

    def test_of_the_clocks_of_the_zone(self) -> None:
        """Half an hour beside those of most others."""
        found = list(beginnings("hour", at("2024-05-01T00:00"), at("2024-05-01T02:00"), KOLKATA))
        assert found == [
            at("2024-04-30T23:30"),
            at("2024-05-01T00:30"),
            at("2024-05-01T01:30"),
        ]

    def test_one_that_the_clock_skips(self) -> None:
        since, until = at("2024-03-31T01:00", BERLIN), at("2024-03-31T05:00", BERLIN)
        assert shown("hour", since, until, BERLIN) == [
            "03-31 01:00 +0100",
            "03-31 03:00 +0200",
            "03-31 04:00 +0200",
        ]

    def test_one_that_the_clock_shows_twice_is_two(self) -> None:
        since, until = at("2024-10-27T01:00", BERLIN), at("2024-10-27T04:00", BERLIN)
        assert shown("hour", since, until, BERLIN) == [
            "10-27 01:00 +0200",
            "10-27 02:00 +0200",
            "10-27 02:00 +0100",
            "10-27 03:00 +0100",
        ]

    def test_the_second_one_alone(self) -> None:
        since, until = at("2024-10-27T02:30", BERLIN, fold=1), at("2024-10-27T03:00", BERLIN)
        assert shown("hour", since, until, BERLIN) == ["10-27 02:00 +0100"]

    def test_half_an_hour_that_is_skipped(self) -> None:
        since, until = at("2024-10-06T01:00", LORD_HOWE), at("2024-10-06T04:00", LORD_HOWE)
        assert shown("hour", since, until, LORD_HOWE) == [
            "10-06 01:00 +1030",
            "10-06 02:30 +1100",
            "10-06 03:00 +1100",
        ]

    def test_half_an_hour_that_is_shown_twice(self) -> None:
        since, until = at("2024-04-07T01:00", LORD_HOWE), at("2024-04-07T03:00", LORD_HOWE)
        assert shown("hour", since, until, LORD_HOWE) == [
            "04-07 01:00 +1100",
            "04-07 01:30 +1030",
            "04-07 02:00 +1030",
        ]

    def test_the_half_one_alone(self) -> None:
        since, until = (at(f"2024-04-07T01:{m}", LORD_HOWE, fold=1) for m in (45, 46))
        assert shown("hour", since, until, LORD_HOWE) == ["04-07 01:30 +1030"]
        since, until = (at(f"2024-10-06T02:{m}", LORD_HOWE) for m in (45, 46))
        assert shown("hour", since, until, LORD_HOWE) == ["10-06 02:30 +1100"]

    @pytest.mark.parametrize(
        ("zone", "since", "until", "expected"),
        [
            (CARACAS, "2016-05-01T06:30", "2016-05-01T09:00", ["02:00", "03:00", "04:00"]),
            (PYONGYANG, "2018-05-04T14:30", "2018-05-04T17:00", ["23:00", "00:00", "01:00"]),
            (
                ST_JOHNS,
                "2010-11-07T02:30",
                "2010-11-07T04:30",
                ["00:00", "23:01", "00:00"],
            ),
        ],
        ids=str,
    )
    def test_a_jump_in_the_middle_of_one_ends_it(
        self, zone: tzinfo, since: str, until: str, expected: list[str]
    ) -> None:
        found = [text.split()[1] for text in shown("hour", at(since), at(until), zone)]
        assert found == expected


class TestMinutes:
    def test_each_begins_at_a_full_one(self) -> None:
        since, until = at("2024-05-01T10:15:30.5"), at("2024-05-01T10:18")
        found = list(beginnings("minute", since, until, BERLIN))
        assert found == [at(f"2024-05-01T10:{minute}") for minute in (15, 16, 17)]

    def test_around_a_jump_there_are_as_many_as_pass(self) -> None:
        since, until = at("2024-03-31T00:30"), at("2024-03-31T01:30")
        assert len(list(beginnings("minute", since, until, BERLIN))) == 60
        assert shown("minute", at("2024-03-31T00:59"), at("2024-03-31T01:01"), BERLIN) == [
            "03-31 01:59 +0100",
            "03-31 03:00 +0200",
        ]


class TestDays:
    def test_they_have_23_to_25_hours(self) -> None:
        assert hours_between("2024-03-30", "2024-04-02", BERLIN) == [24, 23]
        assert hours_between("2024-10-26", "2024-10-29", BERLIN) == [24, 25]
        assert hours_between("2024-10-05", "2024-10-08", LORD_HOWE) == [24, 23.5]
        assert hours_between("2024-04-06", "2024-04-09", LORD_HOWE) == [24, 24.5]

    def test_one_that_has_no_midnight_begins_when_the_clock_is_set(self) -> None:
        since, until = at("2018-11-03T12:00", SAO_PAULO), at("2018-11-06T00:00", SAO_PAULO)
        assert shown("day", since, until, SAO_PAULO) == [
            "11-03 00:00 -0300",
            "11-04 01:00 -0200",
            "11-05 00:00 -0200",
        ]
        assert hours_between("2018-11-03", "2018-11-06", SAO_PAULO) == [24, 23]

    def test_one_that_has_two_midnights_begins_at_the_first(self) -> None:
        since, until = at("2018-02-17T12:00", SAO_PAULO), at("2018-02-19T00:00", SAO_PAULO)
        assert shown("day", since, until, SAO_PAULO) == ["02-17 00:00 -0200", "02-18 00:00 -0300"]
        assert hours_between("2018-02-17", "2018-02-20", SAO_PAULO) == [25, 24]

    def test_one_that_was_left_out_is_none(self) -> None:
        since, until = at("2011-12-29", APIA), at("2012-01-01", APIA)
        assert shown("day", since, until, APIA) == ["12-29 00:00 -1000", "12-31 00:00 +1400"]

    def test_the_hours_of_that_night(self) -> None:
        """23 o'clock comes twice: before the clock is set, and after it."""
        since, until = at("2018-02-17T22:00", SAO_PAULO), at("2018-02-18T01:00", SAO_PAULO)
        assert shown("hour", since, until, SAO_PAULO) == [
            "02-17 22:00 -0200",
            "02-17 23:00 -0200",
            "02-17 23:00 -0300",
            "02-18 00:00 -0300",
        ]


class TestLongPeriods:
    def test_a_week_begins_on_monday(self) -> None:
        since, until = at("2024-05-01T00:00", BERLIN), at("2024-05-20T00:00", BERLIN)
        assert shown("week", since, until, BERLIN) == [
            "04-29 00:00 +0200",
            "05-06 00:00 +0200",
            "05-13 00:00 +0200",
        ]

    def test_a_week_may_have_an_hour_more(self) -> None:
        since, until = at("2024-10-23", BERLIN), at("2024-11-01", BERLIN)
        first, second = beginnings("week", since, until, BERLIN)
        assert second - first == timedelta(days=7, hours=1)

    def test_months_have_their_own_lengths(self) -> None:
        since, until = at("2024-01-31T23:59", BERLIN), at("2024-04-01T00:00", BERLIN)
        assert shown("month", since, until, BERLIN) == [
            "01-01 00:00 +0100",
            "02-01 00:00 +0100",
            "03-01 00:00 +0100",
        ]

    def test_a_year_ends(self) -> None:
        since, until = at("2023-12-31T23:00"), at("2024-01-02T00:00")
        assert shown("month", since, until, UTC) == ["12-01 00:00 +0000", "01-01 00:00 +0000"]
        assert shown("week", since, until, UTC) == ["12-25 00:00 +0000", "01-01 00:00 +0000"]
        assert shown("day", since, until, UTC) == ["12-31 00:00 +0000", "01-01 00:00 +0000"]


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


@given(near_jumps | moments, spans, st.sampled_from(ZONES))
def test_days_are_made_of_hours_and_hours_of_minutes(
    since: datetime, span: timedelta, zone: tzinfo
) -> None:
    until = since + min(span, CAP["minute"])
    minutes, hours, days = (
        set(beginnings(by, since, until, zone)) for by in ("minute", "hour", "day")
    )
    assert {hour for hour in hours if hour >= since} <= minutes
    assert {day for day in days if day >= since} <= hours
