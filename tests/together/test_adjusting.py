"""Adjustments beside quotas, series, likes, holds, and increments of other strategies."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from itertools import permutations
from typing import Any

import pytest

from django_counters import InsufficientCount, QuotaExceeded, clock
from django_counters.cached.flush import flush
from django_counters.contrib import holds, series, top
from django_counters.contrib.likes.models import CounterActor
from django_counters.errors import InvalidAdjustment
from django_counters.models import Counter, CounterAdjustment
from django_counters.stores.sql.totals import SqlCorrections
from django_counters.testing import override_counters
from tests.adjustments.adjustables import (
    NAMED,
    Adjustable,
    assert_sound,
    everything,
    parts,
    upkeep,
)
from tests.testapp.models import Member, Note, Product, Site, Tune
from tests.together.counting import KEY, WHO, count, days_ago

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("cached"),
]
CORRECTIONS: dict[str, Callable[[], object]] = {
    "reset": lambda: Counter.objects.reset(KEY, **WHO),
    "to": lambda: Counter.objects.adjust(KEY, to=0, **WHO),
    "by": lambda: Counter.objects.adjust(KEY, by=-340, **WHO),
    "forget": lambda: Counter.objects.forget(KEY),
    "many": lambda: Counter.objects.adjust_many(to={KEY: 0}, case="x", **WHO),
}


def used(period: str) -> int:
    return {one.period: one.used for one in series.quotas(KEY)}[period]


class TestQuotas:
    """After a correction no period admits more than its ceiling."""

    @pytest.fixture(autouse=True)
    def _declared(self) -> Iterator[None]:
        with override_counters(c={"CEILING": {"month": 100, "day": 60}}):
            yield

    def count(self) -> None:
        for months in (3, 2, 1):
            for _ in range(2):
                Counter.objects.increment(KEY, 50, at=days_ago(32 * months + _))
        Counter.objects.increment(KEY, 40)

    @pytest.mark.parametrize("how", CORRECTIONS)
    def test_are_not_opened_by_a_correction_of_the_past(self, how: str) -> None:
        self.count()
        assert Counter.objects.value(KEY) == 340
        CORRECTIONS[how]()
        assert Counter.objects.value(KEY) == 0
        assert [(one.used, one.available) for one in series.quotas(KEY)] == [
            (0, 60),
            (0, 100),
        ]
        with pytest.raises(QuotaExceeded):
            Counter.objects.increment(KEY, 61)
        Counter.objects.increment(KEY, 60)

    def test_a_part_that_the_period_has_is_room_again(self) -> None:
        self.count()
        Counter.objects.adjust(KEY, by=-15, **WHO)
        assert [one.used for one in series.quotas(KEY)] == [25, 25]

    def test_of_a_field(self) -> None:
        member = Member.objects.create()
        member.requests.increment(10, at=days_ago(40))
        member.requests.increment(4)
        member.requests.reset(**WHO)
        assert [(one.used, one.available) for one in series.quotas(member.requests)] == [(0, 10)]
        member.requests.increment(3)
        Member.objects.adjust_many("requests", to={member.pk: 0}, case="x", **WHO)
        assert [(one.used, one.available) for one in series.quotas(member.requests)] == [(0, 10)]

    def test_are_kept_by_an_adjustment(self) -> None:
        Counter.objects.increment(KEY, 55)
        with pytest.raises(QuotaExceeded) as caught:
            Counter.objects.adjust(KEY, by=6, **WHO)
        assert caught.value.available == 5
        assert not CounterAdjustment.objects.exists()
        Counter.objects.adjust(KEY, by=5, **WHO)
        assert (Counter.objects.value(KEY), used("day")) == (60, 60)

    def test_of_a_period_that_begins_meanwhile(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """An adjustment keeps to the quota of the period in which it counts."""
        march, april = (datetime(2026, month, 10, tzinfo=UTC) for month in (3, 4))
        monkeypatch.setattr(clock, "utc", lambda: april)
        Counter.objects.increment(KEY, 60)
        correct = SqlCorrections.correct

        def next_month(corrections: SqlCorrections, changes: Mapping[Any, int]) -> None:
            monkeypatch.setattr(clock, "utc", lambda: april)
            correct(corrections, changes)

        monkeypatch.setattr(SqlCorrections, "correct", next_month)
        monkeypatch.setattr(clock, "utc", lambda: march)
        with pytest.raises(QuotaExceeded):
            Counter.objects.adjust(KEY, by=5, **WHO)
        assert not CounterAdjustment.objects.exists()
        assert Counter.objects.value(KEY) == used("month") == 60

    def test_let_a_case_adjust_those_that_have_room(self) -> None:
        Counter.objects.increment(KEY, 55)
        report = Counter.objects.adjust_many(by={KEY: 6, "c:b": 6}, case="recount", **WHO)
        assert list(report.refused) == [KEY]
        assert Counter.objects.values_of([KEY, "c:b"]) == {KEY: 55, "c:b": 6}


@pytest.mark.parametrize("name", ["visits", "downloads"])
def test_no_day_of_a_record_is_negative_by_a_reset(name: str) -> None:
    site = Site.objects.create()
    counter = getattr(site, name)
    counter.increment(500, at=days_ago(1))
    counter.increment(7)
    counter.reset(**WHO)
    assert [point.value for point in series.of(counter).per("day").last(2)] == [500, 0]


def test_no_rank_is_negative_by_a_reset() -> None:
    tune = Tune.objects.create()
    tune.hearts.increment(500, at=days_ago(8))
    tune.hearts.increment(7)
    tune.hearts.reset(**WHO)
    assert top.largest(series.of(Tune.hearts).per("day").last(1), 5) == []


def test_no_day_is_negative_by_a_reset(strategy: str) -> None:
    count()
    upkeep()
    Counter.objects.reset(KEY, **WHO)
    upkeep()
    counts = series.of(KEY).per("day").last(2)
    assert [point.value for point in counts] == [500, 0]
    assert Counter.objects.value(KEY) == 0


class TestEarlierStrategies:
    @pytest.mark.parametrize(
        ("before", "now"), list(permutations(["exact", "sharded", "ledger", "cached"], 2))
    )
    def test_what_waits_from_before_is_part_of_the_value(self, before: str, now: str) -> None:
        earlier, counter = Adjustable(NAMED[before]), Adjustable(NAMED[now])
        with earlier.declared():
            earlier.increment(5)
            assert parts(earlier.adjust(by=2)) == (5, 7, 2)
            if before == "cached":
                # As it has to be, before it is something else.
                flush()
        with counter.declared():
            counter.increment(3)
            assert parts(counter.adjust(to=100)) == (10, 100, 90)
            upkeep()
            counter.increment(1)
            assert counter.value() == 101
            found = Counter.objects.explain(counter.key)
            parts_of_it = found.total + found.shards + found.tail + (found.redis or 0)
            assert found.value == parts_of_it == 101
        assert_sound()


@pytest.fixture
def note() -> Iterator[Note]:
    with override_counters(c={"ONCE": True, "PER": ["day"]}):
        note = Note.objects.create()
        note.likes.increment(who="ann")
        note.waves.increment(who="ann")
        Counter.objects.increment(KEY, who="ann")
        yield note


ADJUSTED: dict[str, Callable[[Note], object]] = {
    "named": lambda _: Counter.objects.adjust(KEY, by=1, **WHO),
    "reset": lambda _: Counter.objects.reset(KEY, **WHO),
    "field": lambda note: note.likes.adjust(to=0, **WHO),
    "slots": lambda note: note.waves.reset(**WHO),
}


@pytest.mark.parametrize("how", ADJUSTED)
def test_likes_are_as_many_as_their_actors(note: Note, how: str) -> None:
    before = everything()
    with pytest.raises(InvalidAdjustment, match="number of actors"):
        ADJUSTED[how](note)
    assert everything() == before
    values = [Counter.objects.value(KEY), note.likes.value(), note.waves.value()]
    assert values == [1, 1, 1]
    assert CounterActor.objects.count() == 3


def test_a_case_leaves_likes_out_and_adjusts_others(note: Note) -> None:
    report = Counter.objects.adjust_many(to={KEY: 9, "plain": 9}, case="x", **WHO)
    assert list(report.refused) == [KEY]
    assert Counter.objects.values_of([KEY, "plain"]) == {KEY: 1, "plain": 9}
    assert_sound()


STOCKS: dict[str, Callable[[], tuple[Any, Callable[..., CounterAdjustment]]]] = {
    "named": lambda: (KEY, lambda **said: Counter.objects.adjust(KEY, **said, **WHO)),
    "field": lambda: (
        (stock := Product.stock.of(Product.objects.create().pk)),
        lambda **said: stock.adjust(**said, **WHO),
    ),
}


@pytest.mark.parametrize("kind", STOCKS)
def test_what_is_held_is_no_part_of_what_is_adjusted(kind: str) -> None:
    """A stock of ten: four are held, of which two are sold; three more are found."""
    with override_counters(c={"FLOOR": 0}):
        stock, adjust = STOCKS[kind]()
        adjust(by=10)
        sold, back = holds.hold(stock, 2), holds.hold(stock, 2)
        assert parts(adjust(to=9)) == (6, 9, 3)
        with pytest.raises(InsufficientCount):
            adjust(by=-10)
        assert holds.stocktake(stock) == holds.Stock(9, 4, 0)
        sold.commit()
        assert back.release()
        assert holds.stocktake(stock) == holds.Stock(11, 0, 2)
        assert parts(adjust(by=-11)) == (11, 0, -11)
        with pytest.raises(InsufficientCount):
            holds.hold(stock, 1)
        assert_sound()


def test_a_hold_comes_back_to_a_stock_below_its_floor() -> None:
    with override_counters(c={"FLOOR": 0}):
        Counter.objects.increment(KEY, 5)
        hold = holds.hold(KEY, 4)
        Counter.objects.adjust(KEY, by=-3, allow_below_floor=True, **WHO)
        assert hold.release()
        assert Counter.objects.value(KEY) == 2
        assert_sound()
