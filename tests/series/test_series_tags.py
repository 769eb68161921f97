"""Counts by tag, and of several counters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from asgiref.sync import async_to_sync

from django_counters.contrib import series
from django_counters.contrib.series import Split
from django_counters.contrib.series.models import CounterCell
from django_counters.errors import (
    UnsupportedSeries,
)
from django_counters.models import CounterDelta
from django_counters.tokens import mint
from tests.series.counting import (
    HOUR,
    NOON,
    NOW,
    ask,
    count,
    objects,
    values,
)

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("by_period")]


@pytest.fixture
def _tagged(by_period: None) -> None:
    for by, tags in enumerate(
        [
            {},
            {"country": "DE"},
            {"country": "DE", "plan": "pro"},
            {"country": "a|b% ~.*", "plan": "free"},
            {"plan": "pro"},
            {"country": "FR", "plan": "pro"},
            {"country": "IT", "plan": "team"},
        ]
    ):
        count(NOON - by * HOUR, 10**by, **tags)


@pytest.mark.usefixtures("_tagged")
class TestTags:
    def test_where(self) -> None:
        expected: list[tuple[dict[str, Any], int]] = [
            ({"country": "DE"}, 110),
            ({"country": ["DE", "FR"]}, 100110),
            ({"country": "a|b% ~.*"}, 1000),
            ({"country": None}, 10001),
            ({"country": [None, "DE"]}, 10111),
            ({"country": "D"}, 0),
            ({"country": "D."}, 0),
            ({"country": ["(", "FR"]}, 100000),
            ({"country": "DE|pro"}, 0),
            ({"country": []}, 0),
            ({"country": "~"}, 1000000),
            ({"country": "IT"}, 0),
            ({"plan": "pro"}, 110100),
            ({"plan": None}, 11),
            ({"plan": ""}, 11),
            ({"plan": ["free", None]}, 1011),
            ({"country": "DE", "plan": "pro"}, 100),
            ({"country": "DE", "plan": None}, 10),
        ]
        for tags, total in expected:
            assert ask().where(**tags).total() == total, tags
            assert sum(values(ask().where(**tags).per("hour").last(24))) == total, tags

    def test_conditions_hold_together(self) -> None:
        assert ask().where(country="DE").where(plan="pro").total() == 100
        assert ask().where(country="DE").where(country="FR").total() == 0

    def test_by_one_tag(self) -> None:
        assert ask().by("country").total() == {
            "~": 1000000,
            "FR": 100000,
            None: 10001,
            "a|b% ~.*": 1000,
            "DE": 110,
        }
        assert list(ask().by("country").total())[:2] == ["~", "FR"]

    def test_by_several(self) -> None:
        assert ask().where(country=["DE", "FR"]).by("plan", "country").total() == {
            ("pro", "FR"): 100000,
            ("pro", "DE"): 100,
            (None, "DE"): 10,
        }

    def test_rows_have_the_same_periods(self) -> None:
        rows = ask().by("plan").per("hour").last(3).list()
        assert [(row.tags, values(row.points), row.total) for row in rows] == [
            ({"plan": "pro"}, [100, 0, 0], 100),
            ({"plan": None}, [0, 10, 1], 11),
        ]
        assert isinstance(rows[0], Split)
        assert [point.start for point in rows[0].points] == [NOON - 2 * HOUR, NOON - HOUR, NOON]

    def test_a_tag_that_comes_later_was_not_given_before(
        self, override_counters: Callable[..., None]
    ) -> None:
        tags = {"country": 3, "plan": 5, "device": 5}
        override_counters(signups={"PER": ["hour", "day"], "TAGS": tags})
        total = ask().total()
        assert ask().by("device").total() == {None: total}
        assert ask().where(device=None).total() == total
        assert ask().where(device="tv").total() == 0
        count(NOON, 5, device="tv")
        assert ask().by("device").total() == {None: total, "tv": 5}
        assert ask().where(device="tv").total() == 5
        assert ask().where(device=None).total() == total


class TestMany:
    def test_several_keys(self) -> None:
        count(NOON, 1)
        count(NOON, 2, key="signups:b")
        count(NOON, 4, key="signups:other")
        both = series.of(["signups:a", "signups:b", "signups:c"])
        assert both.total() == 3
        assert {k: values(v) for k, v in both.per("hour").last(2).each().items()} == {
            "signups:a": [0, 1],
            "signups:b": [0, 2],
            "signups:c": [0, 0],
        }

    def test_by_tag_of_each(self) -> None:
        count(NOON, 1, country="DE")
        count(NOON, 2, key="signups:b", country="FR")
        found = series.of(["signups:a", "signups:b"]).by("country").per("hour").last(1).each()
        assert {key: [(r.tags, r.total) for r in rows] for key, rows in found.items()} == {
            "signups:a": [({"country": "DE"}, 1)],
            "signups:b": [({"country": "FR"}, 2)],
        }

    def test_rows_of_several_writers_are_one_cell(self) -> None:
        count(NOON, 1, key="spread:a")
        cell = CounterCell.objects.get(key="spread:a")
        CounterCell.objects.create(
            measure=cell.measure, key=cell.key, period=1, start=cell.start, shard=77, value=5
        )
        assert series.of("spread:a").per("hour").last(1).list()[0].value == 6
        assert series.of("spread:a").total() == 6

    @pytest.mark.django_db(databases=["default", "other"])
    def test_each_database_has_its_own(self) -> None:
        objects.increment("signups:a", 5, at=NOON, using="other")
        assert ask().total() == 0
        assert ask().using("other").total() == 5

    def test_async(self) -> None:
        count(NOON, 2, country="DE")

        async def told() -> tuple[Any, ...]:
            asked = ask().per("hour").last(1)
            rows = await asked.by("country").alist()
            return await asked.alist(), await asked.atotal(), await asked.aeach(), rows[0].total

        points, total, each, split = async_to_sync(told)()
        assert (values(points), total, list(each), split) == ([2], 2, ["signups:a"], 2)


@pytest.mark.usefixtures("past")
class TestLedger:
    def test_its_entries_are_its_series(self) -> None:
        given = [("orders:a", 5, NOON), ("orders:a", -2, NOON - HOUR), ("orders:b", 10, NOON)]
        CounterDelta.objects.append_many([(key, by, mint(moment)) for key, by, moment in given])
        asked = series.of(["orders:a", "orders:b"]).per("hour").last(2)
        assert values(asked) == [-2, 15]
        assert {key: values(points) for key, points in asked.each().items()} == {
            "orders:a": [-2, 5],
            "orders:b": [0, 10],
        }
        assert (asked.total(), series.of("orders:a").total()) == (13, 3)
        assert series.of("orders:a").between(NOW - HOUR, NOW).total() == 5

    def test_its_entries_have_no_tags(self) -> None:
        for call in (lambda: ask("orders:a").by("country"), lambda: ask("orders:a").where(a="b")):
            with pytest.raises(UnsupportedSeries, match="have no tags"):
                call()
