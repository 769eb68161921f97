"""How often a counter was changed is counted beside by how much, whoever changes it and how."""

from __future__ import annotations

import random
from collections import Counter as Tally
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from django_counters import clock
from django_counters.checks import check_setting
from django_counters.contrib import series
from django_counters.contrib.series import Occurred
from django_counters.contrib.series.models import CounterCell, CounterOccurrence
from django_counters.contrib.series.options import OCCURRENCE, SUM, period_cell
from django_counters.contrib.series.upkeep import prune_cells
from django_counters.errors import (
    HistoryNotKept,
    InsufficientCount,
    InvalidPeriod,
    UnsupportedSeries,
)
from django_counters.landing import land as land_parcel
from django_counters.models import Counter, SlottedCounter
from django_counters.redis.keys import cell_field, cell_in
from django_counters.registry import registry
from django_counters.stores.base import Parcel
from django_counters.testing import override_counters
from django_counters.tokens import mint
from django_counters.types import Cell
from django_counters.upkeep import rollup
from tests.series.cells import land, midnight
from tests.testapp.models import Site

pytestmark = pytest.mark.django_db(transaction=True)
DECLARED: dict[str, Any] = {"PER": ["hour"], "OCCURRENCES": ["day"], "TAGS": {"country": 2}}
CACHED: dict[str, Any] = {"STRATEGY": "cached", "OPTIONS": {"timeout": 10}, **DECLARED}
WAYS: dict[str, dict[str, Any]] = {
    "exact": DECLARED,
    "with a floor": {"FLOOR": 0, **DECLARED},
    "with a top": {"TOP": ["day"], **DECLARED},
    "sharded": {"STRATEGY": "sharded", **DECLARED},
    "ledger": {"STRATEGY": "ledger", **DECLARED},
    "cached": CACHED,
    "cached, without Redis": {**CACHED, "CACHE": "redis://127.0.0.1:1/0"},
}
KEYS = [f"hits:{number}" for number in range(3)]
ROWS = CounterOccurrence._base_manager
_Where = tuple[str, datetime, str | None]


class Chance:
    """Changes of all kinds, drawn at random, and what they come to by key, day and country."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self.number: Tally[_Where] = Tally()
        self.value: Tally[_Where] = Tally()

    def said(self) -> dict[str, Any]:
        at = clock.utc() - timedelta(hours=self._random.choice([0, 1, 30, 24 * 9]))
        country = self._random.choice([None, "DE", "FR"])
        return {"at": at, "tags": {"country": country}}

    def told(self, key: str, by: int, said: dict[str, Any]) -> None:
        where = key, midnight(said["at"]), said["tags"]["country"]
        self.number[where] += 1
        self.value[where] += by

    def one(self) -> None:
        key, by, said = self._random.choice(KEYS), self._random.randint(1, 9), self.said()
        Counter.objects.increment(key, by, **said)
        self.told(key, by, said)

    def decrement(self) -> None:
        key, said = self._random.choice(KEYS), self.said()
        try:
            Counter.objects.decrement(key, 3, **said)
        except InsufficientCount:
            return
        self.told(key, -3, said)

    def many(self) -> None:
        said = self.said()
        Counter.objects.increment_many(dict.fromkeys(KEYS, 2), **said)
        for key in KEYS:
            self.told(key, 2, said)

    def collect(self) -> None:
        """Also what comes to nothing."""
        key, said = self._random.choice(KEYS), self.said()
        amounts = self._random.choice([(4, 4, -8), (4, 4, -8, 1)])
        with transaction.atomic(), Counter.objects.collect():
            for by in amounts:
                Counter.objects.increment(key, by, **said)
                self.told(key, by, said)

    def rolled_back(self) -> None:
        with transaction.atomic():
            self.one()
            with pytest.raises(LookupError), transaction.atomic():
                Counter.objects.increment(KEYS[0], 5, **self.said())
                raise LookupError

    def twice(self) -> None:
        token, key, said = mint(clock.utc()), self._random.choice(KEYS), self.said()
        for _ in range(2):
            Counter.objects.increment(key, 3, token=token, **said)
        self.told(key, 3, said)

    def change(self) -> None:
        ways: list[Callable[[], None]] = [
            *(self.one, self.decrement, self.many),
            *(self.collect, self.rolled_back, self.twice),
        ]
        self._random.choice(ways)()


def stored() -> Tally[_Where]:
    """How often by the rows of days, by key, day and country."""
    found: Tally[_Where] = Tally()
    for row in ROWS.filter(period=CounterCell.Period.DAY):
        found[row.key, row.start.astimezone(UTC), row.tags or None] += row.value
    return found


def arrive(way: str) -> None:
    """Let come to the rows what waits elsewhere."""
    if way == "cached":
        land()
    rollup()


@pytest.mark.usefixtures("cached")
@pytest.mark.parametrize("way", WAYS)
def test_whatever_happens_each_change_is_one(way: str) -> None:
    chance = Chance(7)
    with override_counters(hits=WAYS[way]):
        for turn in range(120):
            chance.change()
            if turn % 20 == 0:
                arrive(way)
        arrive(way)
        for key in KEYS:
            told = series.of(key).per("day").last(15).occurrences()
            days = {midnight(point.start): (point.number, point.value) for point in told}
            assert {day: pair for day, pair in days.items() if pair != (0, 0)} == {
                day: (
                    sum(n for (k, d, _), n in chance.number.items() if (k, d) == (key, day)),
                    sum(n for (k, d, _), n in chance.value.items() if (k, d) == (key, day)),
                )
                for day in {day for of, day, _ in chance.number if of == key}
            }
    assert stored() == chance.number
    assert sum(chance.number.values()) > 150
    # Of other periods there are none.
    assert not ROWS.exclude(period=CounterCell.Period.DAY).exists()


class TestReading:
    @pytest.fixture(autouse=True)
    def _declared(self) -> Any:
        with override_counters(hits=DECLARED):
            yield

    def test_numbers_and_means(self) -> None:
        for by, country in ((10, "DE"), (30, "DE"), (5, None)):
            Counter.objects.increment("hits:a", by, tags={"country": country})
        Counter.objects.increment("hits:b", 1)
        counts = series.of("hits:a")
        *before, today = counts.per("day").last(3).occurrences()
        assert [(point.number, point.value, point.mean) for point in before] == [(0, 0, None)] * 2
        assert (today.number, today.value, today.mean) == (3, 45, 15.0)
        assert today.end - today.start == timedelta(days=1)
        assert counts.occurred() == Occurred(3, 45)
        assert counts.where(country="DE").occurred().mean == 20.0
        assert counts.by("country").occurred() == {"DE": Occurred(2, 40), None: Occurred(1, 5)}
        assert series.of(namespace="hits").per("week").last(1).occurred().number == 4

    def test_one_statement_reads_both(self) -> None:
        Counter.objects.increment("hits:a", 4)
        counts = series.of("hits:a").per("day").last(2)
        counts.occurrences()
        with CaptureQueriesContext(connection) as queries:
            assert counts.occurrences()[-1].mean == 4.0
        assert len(queries) == 1

    def test_nothing_was_counted(self) -> None:
        assert series.of("hits:a").occurred() == Occurred(0, 0)
        assert series.of("hits:a").by("country").occurred() == {}

    def test_what_cannot_be_told(self) -> None:
        counts = series.of("hits:a")
        with pytest.raises(InvalidPeriod):
            counts.per("hour").last(2).occurrences()
        with pytest.raises(InvalidPeriod):
            counts.occurrences()
        with override_counters(hits={"PER": ["day"]}), pytest.raises(UnsupportedSeries):
            counts.occurred()

    def test_the_time_before_they_were_declared(self) -> None:
        with override_counters(hits={"PER": ["day"]}):
            Counter.objects.increment("hits:a", 4)
        Counter.objects.increment("hits:a", 6)
        counts = series.of("hits:a").per("day").last(1)
        assert counts.total() == 10
        with pytest.raises(HistoryNotKept):
            counts.occurrences()


def test_a_parcel_lands_them_once() -> None:
    with override_counters(hits=DECLARED):
        Counter.objects.increment("hits:a", 5)
        measure = registry.policy("hits:a").measure
        assert measure
        number = registry.measures("default").ensure(measure).id
        cell = period_cell(SUM, number, CounterCell.Period.DAY, midnight(clock.utc()))
        own: dict[tuple[str, Cell | None], int] = {
            ("hits:a", cell): 7,
            ("hits:a", cell._replace(kind=OCCURRENCE)): 2,
        }
        parcel = Parcel(mint(clock.utc()).hex, "test", {"hits:a": 7}, cells=own)
        for _ in range(2):
            land_parcel(parcel)
        assert series.of("hits:a").occurred() == Occurred(3, 12)


def test_redis_and_streams_tell_them_from_cells() -> None:
    cell = period_cell(SUM, 3, 2, datetime(2026, 1, 2, 3, tzinfo=UTC), "DE|~")
    own = cell._replace(kind=OCCURRENCE)
    fields = {
        cell_field(one, "hits:a")
        for one in (cell, own, period_cell(SUM, 3, 3, cell.values[2], "DE|~"))
    }
    assert len(fields) == 3
    for one in (cell, own):
        assert cell_in(cell_field(one, "app.Model.field 7")) == ("app.Model.field 7", one)


@pytest.mark.usefixtures("cached")
def test_those_of_records_go_with_them() -> None:
    sites = [Site.objects.create() for _ in range(2)]
    for site in sites:
        site.visits.increment(6, tags={"country": "DE"})
        SlottedCounter.objects.increment(site, "visits", 2)
        site.downloads.increment(3)
    Site.objects.increment(downloads=1)
    assert series.of(Site.visits).per("day").last(1).occurred() == Occurred(4, 16)
    assert series.of(sites[0].downloads).occurred() == Occurred(2, 4)
    key = str(sites[0].pk)
    assert ROWS.filter(key=key).exists()
    sites[0].delete()
    assert not ROWS.filter(key=key).exists()
    assert series.of(Site.visits).occurred() == Occurred(2, 8)


def test_what_is_kept_no_longer() -> None:
    with override_counters(hits=DECLARED):
        for days in (0, 60):
            Counter.objects.increment("hits:a", 3, at=clock.utc() - timedelta(days=days))
        assert series.of("hits:a").occurred() == Occurred(2, 6)
    with override_counters(hits={**DECLARED, "KEEP": {"day": 40}}):
        prune_cells()
        assert series.of("hits:a").per("day").last(30).occurred() == Occurred(1, 3)
    assert ROWS.count() == 1


@pytest.mark.parametrize(
    ("beside", "says"),
    [
        ({"OCCURRENCES": "day"}, "occurrences is a list"),
        ({"BUFFER": {}, "OCCURRENCES": ["day"]}, "BUFFER cannot stand beside OCCURRENCES"),
        ({"REGIONAL": True, "OCCURRENCES": ["day"]}, "REGIONAL excludes OCCURRENCES"),
    ],
)
def test_what_they_cannot_stand_beside(beside: dict[str, Any], says: str, settings: Any) -> None:
    settings.COUNTERS = {"hits": beside}
    assert any(says in message.msg for message in check_setting())
