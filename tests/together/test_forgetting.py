"""What belongs to a counter goes with it when it is forgotten or its record is deleted."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.apps import apps
from django.db import connections
from django.db.models import Sum

from django_counters.contrib import holds, series, top, uniques
from django_counters.contrib.holds.models import CounterHold
from django_counters.contrib.series.models import CounterCell, CounterOccurrence, CounterSample
from django_counters.contrib.series.recording import record_history
from django_counters.models import Counter
from django_counters.testing import override_counters
from django_counters.write.changes import BELONGINGS, Fate
from tests.adjustments.adjustables import assert_sound, upkeep
from tests.testapp.models import Product
from tests.together.counting import KEY, count, declared, rows_of

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("cached"),
]


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
        left = {name for name in rows_of(KEY) if BELONGINGS.get(name) is not Fate.KEPT}
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
    counts = series.of(KEY).per("day").last(2)
    assert Counter.objects.value(KEY) == 1
    assert [point.value for point in counts] == [0, 1]
    assert uniques.count(counts) == 1
    assert {tags: n for tags, n in counts.by("country").total().items() if n} == {"AT": 1}
    assert counts.occurred().number == 1
    if "TOP" in declared(strategy):
        largest = top.largest(series.of(namespace="c").per("day").last(1), 5)
        assert [(one.key, one.value) for one in largest] == [(KEY, 1)]
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
