"""What belongs to a counter: all of it goes with it, and a correction leaves past periods alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from django.apps import apps
from django.db import connections
from django.db.models import Sum

from django_counters import QuotaExceeded, clock
from django_counters.contrib import holds
from django_counters.contrib.holds.models import CounterHold
from django_counters.models import Counter, CounterCell, CounterOccurrence, CounterSample
from django_counters.testing import override_counters
from django_counters.upkeep.recording import record_history
from django_counters.write.belongings import BELONGINGS, Fate
from tests.adjustments.adjustables import NAMED, assert_sound, upkeep
from tests.testapp.models import Member, Product, Site, Tune

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("cached"),
]
KEY = "c:page"
WHO: dict[str, Any] = {"reason": "a correction", "actor": "ops"}
MEASURED = {
    "PER": ["day"],
    "TAGS": {"country": 3},
    "UNIQUE": ["day"],
    "OCCURRENCES": ["day"],
}


@pytest.fixture(autouse=True)
def _no_period_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    now = clock.utc()
    monkeypatch.setattr(clock, "utc", lambda: now)


def declared(strategy: str) -> dict[str, Any]:
    ranked = {"TOP": ["day"]} if strategy in ("exact", "cached") else {}
    return {**(NAMED[strategy].declared or {}), **MEASURED, **ranked}


@pytest.fixture(params=NAMED)
def strategy(request: pytest.FixtureRequest) -> Iterator[str]:
    with override_counters(c=declared(request.param)):
        yield str(request.param)


def days_ago(days: int) -> Any:
    return clock.utc() - timedelta(days=days)


def rows_of(key: str) -> dict[str, int]:
    """How many rows each table has of a counter, of the tables that have some."""
    found = {}
    for model in apps.get_app_config("django_counters").get_models():
        names = {field.name for field in model._meta.get_fields()}
        if "key" in names and (number := model._base_manager.filter(key=key).count()):
            found[model.__name__] = number
    return found


def count(key: str = KEY) -> None:
    """500 yesterday and 7 today."""
    Counter.objects.increment(key, 500, at=days_ago(1), tags={"country": "DE"}, who="ann")
    Counter.objects.increment(key, 7, tags={"country": "DE"}, who="bob")


class TestEachTable:
    def test_is_registered(self) -> None:
        """A new table that has rows of a counter says what becomes of them."""
        tables = set()
        for model in apps.get_app_config("django_counters").get_models():
            names = {field.name for field in model._meta.get_fields()}
            if names & {"key", "record_id", "subject", "digest"}:
                tables.add(model.__name__)
        assert tables == set(BELONGINGS)

    @pytest.mark.parametrize("landed", [True, False], ids=["landed", "waiting"])
    def test_has_nothing_of_a_forgotten_counter(self, strategy: str, landed: bool) -> None:
        count()
        if landed:
            upkeep()
            assert {"CounterCell", "CounterOccurrence"} <= set(rows_of(KEY))
        Counter.objects.forget(KEY)
        upkeep()
        left = {name for name in rows_of(KEY) if BELONGINGS[name] is not Fate.KEPT}
        # What waited in the ledger, in shards and in Redis is folded into the row, and comes to
        # nothing there.
        assert left <= {"Counter", "CounterDelta", "CounterShard"} or not landed
        assert Counter.objects.value(KEY) == 0


def test_it_begins_as_if_it_had_never_been_counted(strategy: str) -> None:
    count()
    upkeep()
    assert Counter.objects.forget(KEY) == 507
    Counter.objects.increment(KEY, tags={"country": "AT"}, who="cid")
    upkeep()
    _all_begin_anew(strategy)


def test_what_waits_is_forgotten_too(strategy: str) -> None:
    count()
    assert Counter.objects.forget(KEY) == 507
    upkeep()
    Counter.objects.increment(KEY, tags={"country": "AT"}, who="cid")
    upkeep()
    _all_begin_anew(strategy)


def _all_begin_anew(strategy: str) -> None:
    series = Counter.objects.series(KEY).per("day").last(2)
    assert Counter.objects.value(KEY) == 1
    assert [point.value for point in series] == [0, 1]
    assert series.unique() == 1
    assert {tags: n for tags, n in series.by("country").total().items() if n} == {"AT": 1}
    assert series.occurred().number == 1
    if "TOP" in declared(strategy):
        top = Counter.objects.series(namespace="c").per("day").last(1).top(5)
        assert [(one.key, one.value) for one in top] == [(KEY, 1)]
    assert_sound()


def test_recorded_totals_go_with_it() -> None:
    with override_counters(c={"HISTORY": "1h"}):
        Counter.objects.increment(KEY, 500)
        record_history()
        Counter.objects.forget(KEY)
        assert not CounterSample.objects.exists()


def test_periods_of_an_earlier_declaration_go_with_it() -> None:
    with override_counters(c={"TOP": ["day"], "UNIQUE": ["day"]}):
        Counter.objects.increment(KEY, 5, who="ann")
    with override_counters(c={}):
        Counter.objects.forget(KEY)
    assert rows_of(KEY) == {}


@pytest.mark.parametrize("once", [True, "30m"])
def test_actors_go_with_it(once: Any) -> None:
    with override_counters(c={"ONCE": once, "PER": ["day"], "UNIQUE": ["day"]}):
        for who in ("ann", "bob"):
            Counter.objects.increment(KEY, who=who)
        assert Counter.objects.forget(KEY) == 2
        assert rows_of(KEY) == {}
        assert Counter.objects.increment(KEY, who="ann") == 1


def test_nothing_comes_back_from_a_hold_of_a_forgotten_counter() -> None:
    with override_counters(c={"FLOOR": 0}):
        Counter.objects.increment(KEY, 8)
        holds.hold(KEY, 2, token="cart", minutes=5)
        assert Counter.objects.forget(KEY) == 6
        assert not holds.find("cart").release()
        assert Counter.objects.value(KEY) == 0
        assert CounterHold.objects.get().state == CounterHold.State.RELEASED


def test_nothing_comes_back_from_a_hold_of_a_deleted_record() -> None:
    product = Product._base_manager.create()
    product.stock.increment(8)
    holds.hold(product.stock, 2, token="cart", minutes=5)
    pk = product.pk
    product.delete()
    again = Product._base_manager.create(pk=pk)
    assert not holds.find("cart").release()
    assert again.stock.value() == 0


@pytest.mark.many_writers
def test_each_count_goes_with_its_period_or_stays_with_it(strategy: str) -> None:
    """Writers and forgets at once: the sums of periods are the value at the end."""

    def work(call: Callable[[], object], times: int = 25) -> None:
        try:
            for _ in range(times):
                call()
        finally:
            connections.close_all()

    with ThreadPoolExecutor(6) as pool:
        calls: list[Callable[[], object]] = [lambda: Counter.objects.increment(KEY, who="a")] * 4
        calls += [lambda: Counter.objects.forget(KEY), upkeep]
        for done in [pool.submit(work, call, 25 if call is calls[0] else 5) for call in calls]:
            done.result()
    for _ in range(2):
        upkeep()
    days = CounterCell.objects.filter(key=KEY, period=CounterCell.Period.DAY)
    occurred = CounterOccurrence.objects.filter(key=KEY).aggregate(n=Sum("value"))["n"] or 0
    value = Counter.objects.value(KEY)
    assert (days.aggregate(n=Sum("value"))["n"] or 0) == occurred == value
    Counter.objects.forget(KEY)
    upkeep()
    assert (days.aggregate(n=Sum("value"))["n"] or 0) == 0


CORRECTIONS: dict[str, Callable[[], object]] = {
    "reset": lambda: Counter.objects.reset(KEY, **WHO),
    "to": lambda: Counter.objects.adjust(KEY, to=0, **WHO),
    "by": lambda: Counter.objects.adjust(KEY, by=-340, **WHO),
    "forget": lambda: Counter.objects.forget(KEY),
    "many": lambda: Counter.objects.adjust_many(to={KEY: 0}, case="x", **WHO),
}


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
        assert [(one.used, one.available) for one in Counter.objects.quotas(KEY)] == [
            (0, 60),
            (0, 100),
        ]
        with pytest.raises(QuotaExceeded):
            Counter.objects.increment(KEY, 61)
        Counter.objects.increment(KEY, 60)

    def test_a_part_that_the_period_has_is_room_again(self) -> None:
        self.count()
        Counter.objects.adjust(KEY, by=-15, **WHO)
        assert [one.used for one in Counter.objects.quotas(KEY)] == [25, 25]

    def test_of_a_field(self) -> None:
        member = Member.objects.create()
        member.requests.increment(10, at=days_ago(40))
        member.requests.increment(4)
        member.requests.reset(**WHO)
        assert [(one.used, one.available) for one in member.requests.quotas()] == [(0, 10)]
        member.requests.increment(3)
        Member.objects.adjust_many("requests", to={member.pk: 0}, case="x", **WHO)
        assert [(one.used, one.available) for one in member.requests.quotas()] == [(0, 10)]


@pytest.mark.parametrize("name", ["visits", "downloads"])
def test_no_day_of_a_record_is_negative_by_a_reset(name: str) -> None:
    site = Site.objects.create()
    counter = getattr(site, name)
    counter.increment(500, at=days_ago(1))
    counter.increment(7)
    counter.reset(**WHO)
    assert [point.value for point in counter.series.per("day").last(2)] == [500, 0]


def test_no_rank_is_negative_by_a_reset() -> None:
    tune = Tune.objects.create()
    tune.hearts.increment(500, at=days_ago(8))
    tune.hearts.increment(7)
    tune.hearts.reset(**WHO)
    assert Tune.hearts.series.per("day").last(1).top(5) == []


def test_no_day_is_negative_by_a_reset(strategy: str) -> None:
    count()
    upkeep()
    Counter.objects.reset(KEY, **WHO)
    upkeep()
    series = Counter.objects.series(KEY).per("day").last(2)
    assert [point.value for point in series] == [500, 0]
    assert Counter.objects.value(KEY) == 0
