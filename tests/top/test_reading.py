"""Who has counted most: in a period, a namespace or a field, with a tag, beside the one before."""

from __future__ import annotations

import random
import re
from collections import Counter as Tally
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.db import connection
from django.test import override_settings
from django.test.utils import CaptureQueriesContext

from django_counters import clock
from django_counters.contrib import series, top
from django_counters.contrib.series import Series
from django_counters.contrib.series.models import CounterCell
from django_counters.contrib.top import CounterRank, Placed, Ranked, alargest, largest, reading
from django_counters.errors import (
    HistoryNotKept,
    InvalidKey,
    InvalidPeriod,
    InvalidTags,
    UnsupportedSeries,
)
from django_counters.models import Counter, CounterMeasure
from django_counters.registry import registry
from tests.testapp.models import Tune

pytestmark = pytest.mark.django_db
# A Thursday.
NOW = datetime(2024, 5, 16, 12, 30, tzinfo=UTC)
DAY, WEEK = timedelta(days=1), timedelta(days=7)
MONDAY = datetime(2024, 5, 13, tzinfo=UTC)
HITS: dict[str, Any] = {"PER": ["hour"], "TAGS": {"country": 3}, "TOP": ["day", "week"]}
NAMESPACES: dict[str, dict[str, Any]] = {
    "hits": HITS,
    "coarse": {"TOP": ["week"]},
    "minutes": {"PER": ["minute", "hour"], "TOP": ["day"]},
    "plain": {"PER": ["day"]},
    "none": {},
}
objects = Counter.objects


@pytest.fixture(autouse=True)
def _now(monkeypatch: pytest.MonkeyPatch, override_counters: Callable[..., None]) -> Iterator[None]:
    monkeypatch.setattr(clock, "utc", lambda: NOW)
    override_counters(**NAMESPACES)
    with override_settings(TIME_ZONE="UTC"):
        yield
    registry.forget_strategies()


def all_of(name: str = "hits") -> Series:
    return series.of(namespace=name)


def shown(rows: list[Ranked]) -> list[tuple[Any, int, int | None]]:
    return [(row.key, row.value, row.before) for row in rows]


def count(key: str, by: int, at: datetime = NOW, **tags: str) -> None:
    objects.increment(key, by, at=at, tags=tags or None)


class TestOfOnePeriod:
    def test_the_largest_come_first(self) -> None:
        for number in range(1, 30):
            count(f"hits:{number}", number, at=NOW - timedelta(hours=number % 3))
        count("hits:2", 90, at=NOW - DAY)
        count("coarse:x", 500)
        week = all_of().per("week")
        assert shown(largest(week, 2)) == [("hits:2", 92, None), ("hits:29", 29, None)]
        assert shown(largest(all_of().per("day"), 2))[0] == ("hits:29", 29, None)
        assert len(largest(week)) == 10
        assert len(largest(week, 1000)) == 29
        assert largest(week, 1)[0].record is None
        assert async_to_sync(alargest)(week, 1) == largest(week, 1)

    def test_one_that_comes_to_zero_is_not_among_them(self) -> None:
        count("hits:a", 3)
        objects.decrement("hits:a", 3)
        objects.decrement("hits:b", 4)
        assert shown(largest(all_of().per("day"), 5)) == [("hits:b", -4, None)]
        assert largest(all_of().per("day").last(1).where(country=None), 5)[0].value == -4

    def test_some_keys(self) -> None:
        for key, by in {"hits:a": 1, "hits:b": 2, "hits:c": 3}.items():
            count(key, by)
        days = series.of(["hits:a", "hits:b"]).per("day")
        assert [row.key for row in largest(days, 5)] == ["hits:b", "hits:a"]
        assert [row.key for row in largest(series.of("hits:a").per("day"), 5)] == ["hits:a"]

    def test_the_period_that_is_named(self) -> None:
        count("hits:a", 1)
        count("hits:b", 2, at=NOW - DAY)
        days = all_of().per("day")
        assert shown(largest(days.last(1))) == [("hits:a", 1, None)]
        yesterday = NOW.replace(hour=0, minute=0) - DAY
        for until in (None, yesterday + DAY, yesterday + timedelta(minutes=1)):
            asked = days.between(yesterday, until or yesterday + DAY)
            assert shown(largest(asked)) == [("hits:b", 2, None)]
        assert largest(days.between(NOW + DAY, NOW + DAY + timedelta(hours=1))) == []

    def test_by_tag(self) -> None:
        for country, by in {"DE": 4, "FR": 9}.items():
            count("hits:a", by, country=country)
        count("hits:b", 5, country="DE")
        count("hits:b", 1, at=NOW - WEEK, country="DE")
        days = all_of().per("day").where(country="DE")
        assert shown(largest(days)) == [("hits:b", 5, None), ("hits:a", 4, None)]
        assert shown(largest(days.where(country=["DE", "FR"]), 1)) == [("hits:b", 5, None)]
        assert shown(largest(all_of().per("week").where(country=["DE", "FR"]), 1, against=1)) == [
            ("hits:a", 13, 0)
        ]
        # Without ranks, too.
        assert shown(largest(all_of().per("hour").where(country="DE"), 1)) == [("hits:b", 5, None)]
        with pytest.raises(InvalidTags):
            days.where(city="Graz")

    @pytest.mark.parametrize(
        ("asked", "error", "said"),
        [
            (lambda: largest(all_of()), InvalidPeriod, "Name it with per"),
            (lambda: largest(all_of().last("7d")), InvalidPeriod, "Name it with per"),
            (lambda: largest(all_of().per("day").last(2)), InvalidPeriod, "one day, not of 2"),
            (
                lambda: largest(all_of().per("week").last("7d")),
                InvalidPeriod,
                "one week, not of 2",
            ),
            (lambda: largest(all_of().per("day"), 0), InvalidPeriod, "from 1 to 10000"),
            (lambda: largest(all_of().per("day"), True), InvalidPeriod, "from 1 to 10000"),
            (
                lambda: largest(all_of().per("day"), 5, against=0),
                InvalidPeriod,
                "periods before",
            ),
            (
                lambda: largest(all_of().per("day").tz("Asia/Tokyo")),
                InvalidPeriod,
                "clocks of UTC",
            ),
            (lambda: largest(all_of().per("hour")), UnsupportedSeries, r"top=\['hour'\]"),
            (lambda: largest(all_of("plain").per("day")), UnsupportedSeries, r"top=\['day'\]"),
            (lambda: all_of("none"), UnsupportedSeries, "name periods in PER"),
            (lambda: all_of("unknown"), UnsupportedSeries, "no namespace"),
            (lambda: series.of("hits:a", namespace="hits"), InvalidKey, "not of both"),
            (series.of, InvalidKey, "not a counter key"),
        ],
    )
    def test_what_cannot_be_asked(
        self, asked: Callable[[], Any], error: type[Exception], said: str
    ) -> None:
        with pytest.raises(error, match=said):
            asked()

    def test_a_namespace_has_a_series_of_all(self) -> None:
        for key in ("hits:a", "hits:b"):
            count(key, 3)
        count("coarse:a", 3)
        assert all_of().per("day").last(1).total() == 6
        assert set(all_of().per("day").last(1).each()) == {"hits:a", "hits:b"}


class TestBesideTheOneBefore:
    def test_up_to_the_same_time_of_day(self) -> None:
        count("hits:a", 10)
        # Of a week ago: until 13:00, for hours are kept.
        for hours, by in ((-24, 1), (0, 2), (1, 4), (24, 8)):
            count("hits:a", by, at=NOW - WEEK + timedelta(hours=hours))
        assert shown(largest(all_of().per("week"), 1, against=1)) == [("hits:a", 10, 3)]
        # Of one that is over: all of it.
        last_week = all_of().per("week").between(MONDAY - WEEK, MONDAY)
        assert shown(largest(last_week, 1, against=1)) == [("hits:a", 15, 0)]
        assert shown(largest(all_of().per("week"), 1, against=2)) == [("hits:a", 10, 0)]

    def test_to_the_minute_where_minutes_are_kept(self) -> None:
        count("minutes:a", 10)
        for minutes, by in ((-60, 1), (-1, 2), (0, 4), (1, 8), (300, 16)):
            count("minutes:a", by, at=NOW - DAY + timedelta(minutes=minutes))
        # A minute that has begun counts.
        moved = NOW + timedelta(seconds=1)
        for now, before in ((NOW, 3), (moved, 7)):
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(clock, "utc", lambda now=now: now)
                assert shown(largest(all_of("minutes").per("day"), 1, against=1))[0][2] == before

    def test_as_a_whole_where_nothing_finer_is(self) -> None:
        count("coarse:a", 10)
        count("coarse:a", 7, at=MONDAY - timedelta(minutes=1))
        assert shown(largest(all_of("coarse").per("week"), 1, against=1)) == [("coarse:a", 10, 7)]

    def test_by_how_much_they_have_risen(self) -> None:
        """The one that has risen most has not counted most: as in any list of millions."""
        for number in range(100):
            count(f"hits:{number}", 1000 - number)
            count(f"hits:{number}", 999 - number, at=NOW - WEEK)
        count("hits:new", 500)
        found = largest(all_of().per("week"), 1, against=1)
        assert shown(found) == [("hits:new", 500, 0)]

    def test_no_more_candidates_than_can_tell(self) -> None:
        for number in range(60):
            count(f"hits:{number}", 100 if number < 2 else 9)
            count(f"hits:{number}", 1 + number % 8, at=NOW - WEEK)
        with CaptureQueriesContext(
            connection,
        ) as queries:
            found = largest(all_of().per("week"), 2, against=1)
        assert {row.key for row in found} == {"hits:0", "hits:1"}
        ranks = [query for query in queries if CounterRank._meta.db_table in query["sql"]]
        assert len(ranks) == 1


@pytest.mark.parametrize("seed", range(8))
def test_beside_a_list(seed: int) -> None:
    """Ranked as a plain list says, whatever was counted when, and up or down."""
    chance = random.Random(seed)
    keys = [f"hits:{number}" for number in range(chance.randint(1, 40))]
    counted = []
    for _ in range(chance.randint(1, 80)):
        key, ago = chance.choice(keys), timedelta(minutes=chance.randint(0, 60 * 24 * 20))
        by = chance.choice([1, 1, 1, 5, 50, 500])
        counted.append((key, by, NOW - ago, chance.choice(["DE", "FR"])))
        count(key, by, at=NOW - ago, country=counted[-1][3])
    for n in (1, 3, 10, 100):
        for per, start in (("day", NOW.replace(hour=0, minute=0)), ("week", MONDAY)):
            length = DAY if per == "day" else WEEK
            cut = NOW.replace(minute=0) + timedelta(hours=1) - length
            for countries in (["DE"], ["DE", "FR"]):
                mine = [one for one in counted if one[3] in countries]
                value: Tally[str] = Tally()
                before: Tally[str] = Tally()
                for key, by, at, _ in mine:
                    value[key] += by if at >= start else 0
                    before[key] += by if start - length <= at < cut else 0
                asked = all_of().per(per)
                asked = asked if len(countries) > 1 else asked.where(country=countries)
                there = sorted((by for by in value.values() if by), reverse=True)
                found = largest(asked, n)
                assert [row.value for row in found] == there[:n]
                assert all(row.value == value[row.key] for row in found)
                rises = sorted((by - before[key] for key, by in value.items() if by), reverse=True)
                found = largest(asked, n, against=1)
                assert [row.value - (row.before or 0) for row in found] == rises[:n]
                assert all(row.before == before[row.key] for row in found)


class TestRecords:
    @pytest.fixture
    def tunes(self) -> list[Tune]:
        tunes = [Tune.objects.create(title=f"{n % 2}", id=100 - n) for n in range(6)]
        for by, tune in enumerate(tunes, 1):
            tune.hearts.increment(by)
        return tunes

    def test_they_are_loaded_in_one_query(
        self, tunes: list[Tune], django_assert_num_queries: Any
    ) -> None:
        counts: Any = series.of(Tune.hearts)
        registry.measures("default").find("testapp.Tune.hearts")
        with django_assert_num_queries(2):
            found = largest(counts.per("week"), 2)
        assert [row.record for row in found] == tunes[:-3:-1]
        assert [(row.key, row.value) for row in found] == [(95, 6), (96, 5)]
        with django_assert_num_queries(2):
            some = Tune.objects.filter(title="0").select_related("singer")
            found = largest(series.of(Tune.hearts, some).per("day"), 2)
            assert [row.record.singer for row in found] == [None, None]
        assert [row.value for row in found] == [5, 3]

    def test_some_that_are_loaded_are_the_same_objects(self, tunes: list[Tune]) -> None:
        (first, second) = largest(series.of(Tune.hearts, tunes[:2]).per("day"))
        assert first.record is tunes[1]
        assert second.record is tunes[0]
        assert largest(series.of(tunes[3].hearts).per("day"))[0].record == tunes[3]

    def test_part_of_a_queryset(self, tunes: list[Tune]) -> None:
        found = largest(series.of(Tune.hearts, Tune.objects.order_by("-id")[:2]).per("day"))
        assert [row.record for row in found] == [tunes[1], tunes[0]]

    def test_who_was_deleted_with_sql_is_passed_over(self, tunes: list[Tune]) -> None:
        counts: Any = series.of(Tune.hearts)
        Tune._base_manager.filter(pk__in=[95, 96])._raw_delete("default")
        assert [row.key for row in largest(counts.per("day"), 2)] == [97, 98]
        assert [row.key for row in largest(counts.per("day"), 2, against=1)] == [97, 98]


class TestSinceWhen:
    def test_one_that_is_declared_later_is_known_from_then_on(
        self, override_counters: Callable[..., None], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        count("plain:a", 3)
        override_counters(plain={"PER": ["day"], "TOP": ["day"]})
        registry.forget_strategies()
        for _ in range(2):
            with pytest.raises(HistoryNotKept) as caught:
                largest(all_of("plain").per("day"))
            assert caught.value.since == NOW.replace(hour=0, minute=0) + DAY
            count("plain:a", 4)
        # By the cells there is all.
        assert series.of("plain:a").per("day").last(1).total() == 11
        assert "top day" in CounterMeasure.objects.get(name="plain").periods
        monkeypatch.setattr(clock, "utc", lambda: NOW + DAY)
        count("plain:a", 5, at=NOW + DAY)
        assert shown(largest(all_of("plain").per("day"), 1, against=1)) == [("plain:a", 5, 11)]

    def test_what_is_kept_no_longer(self, override_counters: Callable[..., None]) -> None:
        override_counters(hits={**HITS, "KEEP": {"day": 3}})
        count("hits:a", 1)
        old = all_of().per("day").between(NOW - 5 * DAY, NOW - 5 * DAY + timedelta(hours=1))
        for asked, against in ((old, None), (all_of().per("day"), 4)):
            with pytest.raises(HistoryNotKept):
                largest(asked, against=against)

    def test_nobody_has_counted(self) -> None:
        assert largest(all_of().per("day"), 5, against=1) == []


@pytest.mark.postgresql
def test_it_reads_as_many_rows_as_it_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    count("hits:a", 10**6)
    stored = registry.measures("default").find("hits")
    assert stored
    table = CounterRank._meta.db_table
    with connection.cursor() as cursor:
        for period in (CounterCell.Period.DAY, CounterCell.Period.WEEK):
            cursor.execute(
                f"INSERT INTO {table} (measure_id, period, start, key, value) "
                f"SELECT measure_id, period, start, 'hits:' || n, n FROM {table}, "
                "generate_series(1, 30000) n WHERE key = 'hits:a' AND period = %s",
                [period],
            )
        cursor.execute(f"ANALYZE {table}")
        with CaptureQueriesContext(connection) as queries:
            assert [row.value for row in largest(all_of().per("week"), 3)] == [
                10**6,
                30000,
                29999,
            ]
        (ranks,) = (query["sql"] for query in queries if table in query["sql"])
        cursor.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {ranks}")
        ((((found),),),) = [cursor.fetchall()]
    plan = found[0]["Plan"]
    while "Plans" in plan:
        assert plan["Actual Rows"] == 3
        (plan,) = plan["Plans"]
    assert plan["Index Name"] == "counters_top"
    assert plan["Actual Rows"] == 3


def test_the_place_of_one() -> None:
    for key, by in (("a", 5), ("b", 3), ("c", 3), ("d", 1), ("below", -2)):
        objects.increment(f"hits:{key}", by)
    objects.increment("hits:old", at=NOW - WEEK)

    def place(key: str) -> Placed:
        return top.place(series.of(f"hits:{key}").per("week"))

    assert [place(key).place for key in ("a", "b", "c", "d", "below")] == [1, 2, 2, 4, 5]
    assert place("b") == Placed(2, 3)
    # Nobody knows one that has counted nothing, or is at zero again.
    objects.decrement("hits:d")
    assert [place(key) for key in ("d", "old", "never")] == [Placed(None, 0)] * 3
    before = series.of("hits:old").per("week").between(NOW - WEEK, NOW - WEEK + DAY)
    assert top.place(before) == Placed(1, 1)
    assert async_to_sync(top.aplace)(series.of("hits:a").per("day")) == Placed(1, 5)


def test_the_place_of_a_record() -> None:
    first, second = (Tune.objects.create() for _ in range(2))
    first.hearts.increment()
    second.hearts.increment(2)
    weeks = [series.of(tune.hearts).per("week") for tune in (first, second)]
    assert [top.place(week).place for week in weeks] == [2, 1]


def test_a_place_far_behind_is_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "MOST", 2)
    for by in range(1, 5):
        objects.increment(f"hits:{by}", by)
    counts = [series.of(f"hits:{by}").per("day") for by in (4, 3, 2, 1)]
    assert [top.place(one).place for one in counts] == [1, 2, None, None]


@pytest.mark.parametrize(
    ("asked", "problem"),
    [
        (lambda: all_of().per("week"), "place() is of one counter"),
        (lambda: series.of(["hits:a", "hits:b"]).per("week"), "place() is of one counter"),
        (lambda: series.of("hits:a").where(country="de").per("week"), "and not of tags"),
        (lambda: series.of("hits:a").per("hour"), "needs top=['hour']"),
        (lambda: series.of(Tune.hearts).per("week"), "place() is of one counter"),
    ],
)
def test_a_place_that_nobody_has(asked: Callable[[], Series], problem: str) -> None:
    with pytest.raises(UnsupportedSeries, match=re.escape(problem)):
        top.place(asked())
    with pytest.raises(InvalidPeriod):
        top.place(series.of("hits:a"))
