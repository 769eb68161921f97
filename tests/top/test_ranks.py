"""A rank is the sum of the cells of a counter and a period at every commit, whoever has counted."""

from __future__ import annotations

import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.db import connections, models, transaction
from django.db.models import Sum
from django.test.utils import isolate_apps

from django_counters import clock
from django_counters.cached.flush import flush
from django_counters.checks import check_setting
from django_counters.contrib import series
from django_counters.contrib.series.models import CounterCell
from django_counters.contrib.series.upkeep import prune_cells
from django_counters.contrib.top import CounterRank
from django_counters.errors import InsufficientCount
from django_counters.fields import CounterField
from django_counters.models import (
    Counter,
    CounterDelta,
    CounterIncident,
    CounterMeasure,
    CounterShard,
    SlottedCounter,
)
from django_counters.registry import registry
from django_counters.testing import override_counters
from django_counters.tokens import mint
from tests.series.cells import land
from tests.stores.test_failures import wait_for_lock
from tests.testapp.models import Tune

pytestmark = pytest.mark.django_db(transaction=True)
RANKED: dict[str, Any] = {"PER": ["hour"], "TAGS": {"country": 2}, "TOP": ["day", "week"]}
CACHED: dict[str, Any] = {"STRATEGY": "cached", "OPTIONS": {"timeout": 10}}
WAYS: dict[str, dict[str, Any]] = {
    "exact": RANKED,
    "with a floor": {"FLOOR": 0, **RANKED},
    "cached": {**CACHED, **RANKED},
    "cached, without Redis": {**CACHED, **RANKED, "CACHE": "redis://127.0.0.1:1/0"},
}
KEYS = [f"hits:{number}" for number in range(4)]
RANKS = (CounterCell.Period.DAY, CounterCell.Period.WEEK)
_Sums = dict[tuple[int, int, datetime, str], int]


def sums(of: type[models.Model], periods: tuple[int, ...] = RANKS) -> _Sums:
    """The sums by measure, period, start and key, but zeros."""
    columns = ("measure_id", "period", "start", "key")
    rows = of._base_manager.filter(period__in=periods).values_list(*columns)
    return {row[:4]: row[4] for row in rows.annotate(sum=Sum("value")) if row[4]}


def differing() -> tuple[_Sums, _Sums]:
    """What ranks and cells have that the others have not."""
    ranks, cells = sums(CounterRank), sums(CounterCell)
    return (
        {where: value for where, value in ranks.items() if cells.get(where) != value},
        {where: value for where, value in cells.items() if ranks.get(where) != value},
    )


def fail() -> None:
    with transaction.atomic():
        Counter.objects.increment_many(dict.fromkeys(KEYS, 5))
        raise LookupError


class Chance:
    """Changes of all kinds, drawn at random."""

    def __init__(self, seed: int, way: str) -> None:
        self._random = random.Random(seed)
        self._way = way
        self.counted = 0

    def said(self) -> dict[str, Any]:
        ago = timedelta(hours=self._random.choice([0, 1, 30, 24 * 9]))
        tags = self._random.choice([None, {"country": "DE"}, {"country": "FR"}, {"country": "US"}])
        return {"at": clock.utc() - ago if ago else None, "tags": tags}

    def by(self) -> int:
        return self._random.randint(1, 9)

    def key(self) -> str:
        return self._random.choice(KEYS)

    def some(self) -> dict[str, int]:
        return {key: self.by() for key in self._random.sample(KEYS, 3)}

    def collect(self) -> None:
        with transaction.atomic(), Counter.objects.collect():
            for _ in range(4):
                Counter.objects.increment(self.key(), self.by(), **self.said())

    def savepoint(self) -> None:
        with transaction.atomic():
            Counter.objects.increment(self.key(), **self.said())
            with pytest.raises(LookupError):
                fail()

    def twice(self) -> None:
        token, key, said = mint(clock.utc()), self.key(), self.said()
        for _ in range(2):
            Counter.objects.increment(key, 3, token=token, **said)

    def many_once(self) -> None:
        Counter.objects.increment_many(self.some(), token=mint(clock.utc()), **self.said())

    def decrement(self) -> None:
        try:
            Counter.objects.decrement(self.key(), self.by(), **self.said())
        except InsufficientCount:
            self.counted -= 1

    def change(self) -> None:
        ways: list[Callable[[], Any]] = [
            lambda: Counter.objects.increment(self.key(), self.by(), **self.said()),
            self.decrement,
            lambda: Counter.objects.increment_many(self.some(), **self.said()),
            self.collect,
            self.savepoint,
            self.twice,
        ]
        if "cached" not in self._way:
            ways.append(self.many_once)
        beside: list[Callable[[], Any]] = [
            lambda: CounterShard.objects.increment(self.key(), self.by(), **self.said()),
            lambda: CounterDelta.objects.append(self.key(), self.by(), **self.said()),
            lambda: CounterDelta.objects.append_many(list(self.some().items()), **self.said()),
        ]
        # What waits elsewhere has no floor.
        self._random.choice(ways if "floor" in self._way else ways + beside)()
        self.counted += 1


@pytest.mark.usefixtures("cached")
@pytest.mark.parametrize("way", WAYS)
def test_they_are_the_sums_of_cells(way: str) -> None:
    chance = Chance(7, way)
    with override_counters(hits=WAYS[way]):
        for turn in range(150):
            chance.change()
            if turn % 10 == 0 and way == "cached":
                land()
            assert differing() == ({}, {})
        if way == "cached":
            land()
    assert differing() == ({}, {})
    assert chance.counted > 100
    assert {period for _, period, _, _ in sums(CounterRank)} == set(RANKS)
    assert len(sums(CounterRank)) > 2 * len(KEYS)
    # Not even zeros of other periods.
    assert not CounterRank.objects.exclude(period__in=RANKS).exists()


@pytest.mark.usefixtures("cached")
def test_those_of_records_and_of_records_that_are_gone() -> None:
    tunes = [Tune.objects.create(title=str(number)) for number in range(4)]
    for number, tune in enumerate(tunes):
        tune.hearts.increment(5 + number, tags={"country": "DE"})
        tune.hearts.decrement(2, tags={"country": "FR"}, at=clock.utc() - timedelta(days=20))
        tune.plays.increment(number + 1)
        SlottedCounter.objects.increment(tune, "hearts", 1)
    land()
    assert differing() == ({}, {})
    day = CounterRank.objects.filter(period=CounterCell.Period.DAY)
    plays = day.filter(measure__name="testapp.Tune.plays")
    assert {rank.key: rank.value for rank in plays} == {
        str(tune.pk): number + 1 for number, tune in enumerate(tunes)
    }
    gone = [str(tune.pk) for tune in tunes[:2]]
    tunes[0].delete()
    Tune.objects.filter(pk=tunes[1].pk).delete()
    assert not CounterRank.objects.filter(key__in=gone).exists()
    assert differing() == ({}, {})
    assert CounterRank.objects.filter(period=CounterCell.Period.WEEK).count() == 4


def test_what_is_kept_no_longer_has_no_ranks() -> None:
    def after(keep: dict[str, int]) -> int:
        with override_counters(hits={**RANKED, "KEEP": keep}):
            return prune_cells()

    with override_counters(hits=RANKED):
        for days in (0, 30, 60):
            Counter.objects.increment("hits:a", at=clock.utc() - timedelta(days=days))
    assert after({"day": 40}) == 1
    assert CounterRank.objects.filter(period=CounterCell.Period.DAY).count() == 2
    assert CounterRank.objects.filter(period=CounterCell.Period.WEEK).count() == 3
    assert differing() == ({}, {})


@pytest.mark.usefixtures("cached")
def test_who_lands_ranks_what_he_has_never_counted() -> None:
    """And what nobody has completed since it was declared."""
    with override_counters(hits={**CACHED, "PER": ["day"]}):
        Counter.objects.increment("hits:a", 2)
        land()
    with override_counters(hits={**CACHED, "PER": ["day"], "TOP": ["day"]}):
        CounterMeasure.objects.filter(name="hits").update(periods={"day": None})
        Counter.objects.increment("hits:a", 3)
        registry.forget_strategies()
        land()
    assert CounterRank.objects.get().value == 3
    assert set(CounterMeasure.objects.get(name="hits").periods) == {"day", "top day"}
    with override_counters(hits={**CACHED, "PER": ["day"]}):
        Counter.objects.increment("hits:a", 4)
        land()
    assert CounterRank.objects.get().value == 3


@pytest.mark.many_writers
def test_cells_come_before_ranks() -> None:
    """Also within the one statement of many: else two of them could wait for each other."""
    keys = dict.fromkeys(KEYS, 1)
    with override_counters(hits=RANKED), ThreadPoolExecutor(1) as crowd:
        Counter.objects.increment_many(keys)
        with transaction.atomic():
            assert len(CounterRank.objects.select_for_update().filter(key=KEYS[0])) == 2
            waiting = crowd.submit(_counted, keys)
            wait_for_lock()
            free = CounterCell.objects.select_for_update(skip_locked=True)
            assert not free.filter(key__in=KEYS).exists()
        assert waiting.result(60)
        assert differing() == ({}, {})


def _counted(keys: dict[str, int]) -> bool:
    try:
        return bool(Counter.objects.increment_many(keys))
    finally:
        connections.close_all()


@pytest.mark.usefixtures("cached")
def test_one_that_is_full_takes_no_cells() -> None:
    """Where the sum of two tags does not fit, neither the second one nor the sum has it."""
    month = clock.utc() - timedelta(days=31)
    with override_counters(hits={**CACHED, **RANKED}):
        for country in ("DE", "FR"):
            Counter.objects.increment("hits:a", 2**62, tags={"country": country})
            Counter.objects.decrement("hits:a", 2**62, at=month, tags={"country": country})
            Counter.objects.increment("hits:b")
            flush()
            assert differing() == ({}, {})
    assert {one.detail["reason"] for one in CounterIncident.objects.all()} == {"cells"}
    day = CounterRank.objects.filter(period=CounterCell.Period.DAY)
    assert dict(day.filter(value__gt=0).values_list("key", "value")) == {
        "hits:a": 2**62,
        "hits:b": 2,
    }


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"TOP": []}, "top is a list of different periods, not []."),
    ({"TOP": "day"}, "top is a list of different periods, not 'day'."),
    ({"TOP": ["day", "day"]}, "top is a list of different periods"),
    ({"TOP": ["year"]}, "'year' is no period. Known are: minute, hour, day, week, month."),
    ({"TOP": ["day"], "STRATEGY": "sharded"}, "sharded cannot have top: all who count would wait"),
    ({"TOP": ["day"], "STRATEGY": "ledger"}, "ledger cannot have top"),
]


@pytest.mark.parametrize(("options", "message"), WRONG)
def test_mistakes_are_checked(options: dict[str, Any], message: str) -> None:
    with override_counters(hits=options):
        (error,) = check_setting()
    assert error.id == "counters.E033"
    assert message in error.msg


def test_what_is_ranked_is_stored() -> None:
    declared = {"TOP": ["week"], "TAGS": {"country": 2}, "KEEP": {"week": 100}}
    with override_counters(hits=declared):
        assert check_setting() == []
        Counter.objects.increment("hits:a", 3, tags={"country": "DE"})
        assert series.of("hits:a").per("week").last(1).total() == 3
    with override_counters(hits={"TOP": ["week"], "KEEP": {"day": 3}}):
        assert "keep names 'day', by which nothing is counted." in check_setting()[0].msg


@isolate_apps("tests.testapp")
def test_a_field_with_slots_has_no_ranks() -> None:
    class Ranking(models.Model):
        hits = CounterField(strategy="slotted", top=["day"])
        good = CounterField(top=["day"])

        class Meta:
            app_label = "testapp"

    found = {(error.id, error.msg) for error in Ranking.check()}
    reason = "all who count would wait for the one row that has the sum of a period"
    assert found == {("counters.E034", f"slotted cannot have top: {reason}.")}
    field: Any = Ranking._meta.get_field("good")
    assert field.deconstruct()[3] == {"top": ["day"], "default": 0}
