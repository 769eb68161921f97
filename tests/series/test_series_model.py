"""``series`` beside a plain list of what was counted: times, zones, tags and what is kept."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, timedelta
from itertools import pairwise
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import pytest
from django.db import transaction
from django.test import override_settings
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from django_counters import clock
from django_counters.contrib import series
from django_counters.contrib.series import Series
from django_counters.errors import HistoryNotKept, InvalidPeriod
from django_counters.models import Counter, CounterMeasure
from django_counters.registry import registry

pytestmark = [pytest.mark.rare, pytest.mark.django_db]
# Where clocks were set on the Sunday before.
NOW = datetime(2024, 4, 2, 9, 17, tzinfo=UTC)
KEPT = {"hour": 5}
KEYS = ("a", "b")
COUNTRIES = (None, "DE", "FR", "I|T", "Ö%")
PLANS = (None, "free", "pro")
TAGS = {"country": COUNTRIES, "plan": PLANS}


class Event(NamedTuple):
    """What somebody counted."""

    key: str
    by: int
    at: datetime
    tags: dict[str, str | None]


events = st.builds(
    Event,
    st.sampled_from(KEYS),
    st.integers(-3, 1000).filter(bool),
    # Lately, so that the periods that are asked for have some.
    st.integers(0, 10 * 24 * 60).map(lambda minutes: NOW - timedelta(minutes=minutes))
    | st.sampled_from([NOW, NOW - timedelta(days=5), datetime(2024, 3, 31, 1, tzinfo=UTC)]),
    st.fixed_dictionaries({"country": st.sampled_from(COUNTRIES), "plan": st.sampled_from(PLANS)}),
)


class Question(NamedTuple):
    """What is asked of a series."""

    per: str
    span: Any
    zone: str | None
    where: dict[str, list[str | None]]
    by: tuple[str, ...]
    keys: tuple[str, ...]


spans = (
    st.integers(1, 12)
    | st.sampled_from(["1d", "3d", "7d", "30h", "90m", "1w"])
    | st.tuples(st.integers(0, 240), st.integers(1, 100)).map(
        lambda hours: (
            NOW - timedelta(hours=hours[0]),
            NOW - timedelta(hours=hours[0]) + timedelta(hours=hours[1]),
        )
    )
)
questions = st.builds(
    Question,
    st.sampled_from(["hour", "day", "week", "month"]),
    spans,
    st.sampled_from([None, "Europe/Berlin", "Europe/Helsinki", "UTC", "Asia/Kolkata"]),
    st.fixed_dictionaries(
        {},
        optional={
            name: st.lists(st.sampled_from(values), max_size=3) for name, values in TAGS.items()
        },
    ),
    st.sampled_from([(), ("country",), ("plan",), ("plan", "country")]),
    st.sampled_from([("a",), ("b",), KEYS]),
)


def begin(moment: datetime, per: str) -> datetime:
    """When the period of a moment begins by its own clock: worked out from what that shows.

    These zones are at whole hours in this time, Kolkata at half an hour.
    """
    if per == "hour":
        return (moment - timedelta(minutes=moment.minute, seconds=moment.second)).astimezone(UTC)
    day = moment.date()
    back = {"day": 0, "week": day.weekday(), "month": day.day - 1}[per]
    first = day - timedelta(days=back)
    return datetime(first.year, first.month, first.day, tzinfo=moment.tzinfo).astimezone(UTC)


def following(start: datetime, per: str, zone: ZoneInfo) -> datetime:
    """When the next period begins."""
    long = {"hour": 1, "day": 26, "week": 8 * 24, "month": 32 * 24}[per]
    return begin((start + timedelta(hours=long)).astimezone(zone), per)


def periods(question: Question, zone: ZoneInfo) -> list[datetime]:
    """When the periods begin that are asked for, and when the last one ends."""
    per, span = question.per, question.span
    if isinstance(span, int):
        first = begin(NOW.astimezone(zone), per)
        for _ in range(span - 1):
            first = begin((first - timedelta(seconds=1)).astimezone(zone), per)
        until = NOW + timedelta(seconds=1)
    elif isinstance(span, str):
        unit = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}[span[-1]]
        since, until = NOW - timedelta(**{unit: int(span[:-1])}), NOW + timedelta(seconds=1)
        first = begin(since.astimezone(zone), per)
    else:
        since, until = span
        first = begin(since.astimezone(zone), per)
    starts = [first]
    while starts[-1] < until:
        starts.append(following(starts[-1], per, zone))
    return starts


def is_told(question: Question, starts: Sequence[datetime], stored: ZoneInfo) -> bool | None:
    """Whether what is stored can tell; None where it could but for what is kept."""
    days = all(begin(start.astimezone(stored), "day") == start for start in starts)
    hours = all(start.minute == 0 for start in starts)
    if days:
        return True
    kept_since = begin((NOW - timedelta(days=KEPT["hour"])).astimezone(stored), "hour")
    return (None if starts[0] < kept_since else True) if hours else False


def asked(question: Question, namespace: str) -> Any:
    keys = [f"{namespace}:{key}" for key in question.keys]
    counts: Any = series.of(keys if len(keys) > 1 else keys[0]).per(question.per)
    if isinstance(question.span, tuple):
        counts = counts.between(*question.span)
    else:
        counts = counts.last(question.span)
    counts = counts.where(**question.where) if question.where else counts
    counts = counts.tz(question.zone) if question.zone else counts
    return counts.by(*question.by) if question.by else counts


def expected(
    question: Question, given: Sequence[Event], starts: Sequence[datetime]
) -> dict[tuple[str | None, ...], list[int]]:
    rows: dict[tuple[str | None, ...], list[int]] = {}
    for event in given:
        if event.key not in question.keys or not starts[0] <= event.at < starts[-1]:
            continue
        if any(event.tags[name] not in values for name, values in question.where.items()):
            continue
        place = sum(start <= event.at for start in starts) - 1
        row = rows.setdefault(
            tuple(event.tags[name] for name in question.by), [0] * (len(starts) - 1)
        )
        row[place] += event.by
    return rows


@pytest.mark.parametrize("strategy", ["exact", "sharded"])
@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin"])
def test_series_tell_what_was_counted(
    strategy: str,
    zone: str,
    monkeypatch: pytest.MonkeyPatch,
    override_counters: Callable[..., None],
) -> None:
    monkeypatch.setattr(clock, "utc", lambda: NOW)
    options = {
        "STRATEGY": strategy,
        "PER": ["hour", "day"],
        "KEEP": KEPT,
        "TAGS": {"country": 10, "plan": 10},
    }
    override_counters(model=options)
    registry.forget_strategies()
    CounterMeasure.objects.filter(name="model").delete()
    stored = ZoneInfo(zone)

    @settings(max_examples=12, suppress_health_check=list(HealthCheck))
    @given(st.lists(events, max_size=12), st.lists(questions, min_size=8, max_size=14))
    def agree(counted: list[Event], all_asked: list[Question]) -> None:
        with transaction.atomic():
            for event in counted:
                tags = {name: value for name, value in event.tags.items() if value}
                Counter.objects.increment(f"model:{event.key}", event.by, at=event.at, tags=tags)
            for question in all_asked:
                check(question, counted, stored)
            transaction.set_rollback(True)

    with override_settings(TIME_ZONE=zone):
        Counter.objects.increment("model:first")
        agree()
    registry.forget_strategies()


def check(question: Question, counted: list[Event], stored: ZoneInfo) -> None:
    starts = periods(question, ZoneInfo(question.zone) if question.zone else stored)
    counts, told = asked(question, "model"), is_told(question, starts, stored)
    if not told:
        with pytest.raises(InvalidPeriod if told is False else HistoryNotKept):
            counts.list()
        return
    rows = expected(question, counted, starts)
    found = counts.list()
    if isinstance(counts, Series):
        assert [point.start for point in found] == starts[:-1]
        assert [point.end for point in found] == starts[1:]
        assert [point.value for point in found] == rows.get((), [0] * (len(starts) - 1))
        assert counts.total() == sum(rows.get((), ()))
        return
    assert {tuple(row.tags.values()): [p.value for p in row.points] for row in found} == rows
    assert all(row.total == sum(p.value for p in row.points) for row in found)
    totals = {
        key if isinstance(key, tuple) else (key,): sum_ for key, sum_ in counts.total().items()
    }
    assert totals == {key: sum(row) for key, row in rows.items()}


def test_the_model_knows_a_few_things() -> None:
    """What it says of a day on which clocks are set, told by hand."""
    berlin = ZoneInfo("Europe/Berlin")
    question = Question("day", 3, None, {}, (), ("a",))
    starts = periods(question, berlin)
    assert [start.astimezone(berlin).date() for start in starts] == [
        date(2024, 3, 31),
        date(2024, 4, 1),
        date(2024, 4, 2),
        date(2024, 4, 3),
    ]
    assert [(b - a) / timedelta(hours=1) for a, b in pairwise(starts)] == [
        23,
        24,
        24,
    ]
