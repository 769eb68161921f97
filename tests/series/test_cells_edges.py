"""What hinders others, is too large, is not there yet, or is written in another way."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.db import models, transaction
from django.test.utils import isolate_apps
from django.utils.functional import lazystr

from django_counters import clock
from django_counters.cached.flush import flush
from django_counters.contrib import series
from django_counters.contrib.series.models import CounterCell, CounterTag
from django_counters.contrib.series.options import SUM, period_cell
from django_counters.contrib.series.upkeep import prune_cells
from django_counters.errors import HistoryNotKept, InvalidMoment, InvalidTags
from django_counters.fields import CounterField
from django_counters.models import Counter, CounterDelta
from django_counters.registry import registry
from django_counters.stores.sql.measures import SqlMeasures
from django_counters.testing import override_counters
from django_counters.tokens import mint
from django_counters.write.collector import AsyncCollector
from tests.concurrency.crowd import Threads
from tests.concurrency.servers import hurry
from tests.series.cells import MEASURED, by_country, cells, land

pytestmark = pytest.mark.django_db(transaction=True)
CACHED: dict[str, Any] = {"STRATEGY": "cached", "OPTIONS": {"timeout": 10}, **MEASURED}
LEDGER: dict[str, Any] = {"STRATEGY": "ledger", **MEASURED}
DAY = timedelta(days=1)


@pytest.mark.many_writers
def test_appends_with_cells_wait_for_nobody() -> None:
    """Two transactions append to the same counters, in another order each."""
    import threading

    met = threading.Barrier(2)

    def append(number: int) -> None:
        hurry(5000)
        with transaction.atomic():
            for key in ("hits:a", "hits:b")[:: -1 if number else 1]:
                Counter.objects.increment(key, tags={"country": "DE"})
                met.wait(60)

    with override_counters(hits=LEDGER):
        Counter.objects.increment_many({"hits:a": 1, "hits:b": 1})
        Threads(2).run(append)
        assert by_country("hits:a") == {"DE": 2, None: 1}


@pytest.mark.usefixtures("cached")
def test_a_cell_that_is_full_is_refused_alone() -> None:
    with override_counters(hits=CACHED):
        for _ in range(5):
            Counter.objects.increment("hits:big", 2**61, tags={"country": "DE"})
            Counter.objects.decrement("hits:big", 2**61, tags={"country": "FR"})
            Counter.objects.increment("hits:a", 7, tags={"country": "DE"})
            flush()
        assert by_country("hits:a") == {"DE": 35}


@pytest.mark.usefixtures("cached")
@pytest.mark.parametrize("detour", ["ledger", "exact"])
def test_tags_are_bounded_without_redis(detour: str) -> None:
    away = {**CACHED, "CACHE": "redis://127.0.0.1:1/0", "ON_REDIS_DOWN": detour}
    with override_counters(hits=away):
        for country in "ABCDEFG":
            Counter.objects.increment("hits:a", tags={"country": country})
        assert by_country("hits:a") == {"A": 1, "B": 1, "C": 1, "~": 4}


class TestReading:
    def test_who_only_reads_learns_of_a_new_period(self) -> None:
        with override_counters(hits={"PER": ["hour"]}):
            Counter.objects.increment("hits:a", 30)
        reader = SqlMeasures("default")
        with override_counters(hits={"PER": ["hour", "day"]}):
            registry._of.measures["default"] = reader
            days = series.of("hits:a").per("day").last(3)
            assert days.total() == 30
            # Another process counts.
            registry._of.measures["default"] = SqlMeasures("default")
            Counter.objects.increment("hits:a")
            registry._of.measures["default"] = reader
            assert days.total() == series.of("hits:a").total() == 31

    def test_what_was_pruned_stays_unknown(self) -> None:
        now = clock.utc()
        with override_counters(hits={**MEASURED, "KEEP": {"hour": 60}}):
            for days in (0, 5, 50):
                Counter.objects.increment("hits:a", at=now - days * DAY)
        with override_counters(hits={**MEASURED, "KEEP": {"hour": 9}}):
            assert prune_cells() == 1
        with override_counters(hits={**MEASURED, "KEEP": {"hour": 60}}):
            hours = series.of("hits:a").per("hour")
            assert sum(point.value for point in hours.last("6d").list()) == 2
            with pytest.raises(HistoryNotKept):
                hours.last("40d").list()

    def test_texts_of_other_kinds(self) -> None:
        class Place(str, Enum):  # noqa: UP042 - as older projects write it
            DE = "DE"

        with override_counters(hits=MEASURED):
            Counter.objects.increment("hits:a", tags={"country": Place.DE})
            Counter.objects.increment("hits:a", tags={"country": "e\u0301"})
            Counter.objects.increment("hits:a", tags={"country": "\u00e9"})
            assert by_country("hits:a") == {"DE": 1, "\u00e9": 2}
            counts = series.of("hits:a")
            for given in ("DE", Place.DE, lazystr("DE")):
                assert counts.where(country=given).total() == 1
            with pytest.raises(InvalidTags):
                counts.where(country=b"DE")
            with pytest.raises(InvalidTags):
                Counter.objects.increment("hits:a", tags={"country": 10**5000})


def test_the_first_moments_of_the_calendar() -> None:
    with override_counters(hits=MEASURED):
        for moment in (datetime(1, 1, 1, tzinfo=UTC), datetime(1, 1, 2, tzinfo=UTC)):
            try:
                Counter.objects.increment("hits:a", at=moment)
            except InvalidMoment:
                continue
            assert sum(cells("hits:a").values()) == Counter.objects.value("hits:a")


@pytest.mark.many_writers
def test_without_autocommit() -> None:
    with override_counters(hits=MEASURED):
        transaction.set_autocommit(False)
        try:
            for country in ("DE", "FR", "DE"):
                Counter.objects.increment("hits:a", tags={"country": country})
            transaction.commit()
        finally:
            transaction.set_autocommit(True)
        assert by_country("hits:a") == {"DE": 2, "FR": 1}
        assert CounterTag.objects.count() == 2


@isolate_apps("tests.testapp")
def test_keys_that_have_no_one_text_cannot_be_counted_by_period() -> None:
    class Priced(models.Model):
        price = models.DecimalField(primary_key=True, max_digits=5, decimal_places=2)
        hits = CounterField(per=["day"])

        class Meta:
            app_label = "testapp"

    found = [error.id for error in Priced.check() if error.id]
    assert "counters.E028" in found


def test_a_total_and_its_cells_are_collected_together() -> None:
    """Whoever settles a counter meanwhile takes all of a change, or nothing."""
    buffer, moment = AsyncCollector(None), clock.utc()
    taken: list[Any] = []

    def parts() -> Any:
        yield None, 5
        # Another thread comes between; it waits for the lock.
        assert not buffer._lock.acquire(blocking=False)
        yield period_cell(SUM, 1, 3, moment), 5

    buffer.add("hits:a", parts())
    buffer.settle(["hits:a"], taken.append)
    assert taken == [{("hits:a", None): 5, ("hits:a", period_cell(SUM, 1, 3, moment)): 5}]


def test_many_entries_with_tokens_in_one_order() -> None:
    with override_counters(hits=LEDGER):
        entries = [(f"hits:{n}", n + 1, mint(clock.utc())) for n in range(9, -1, -1)]
        CounterDelta.objects.append_many(entries)
        assert CounterDelta.objects.append_many(entries).replayed == 10
        assert sum(cells("hits:9").values()) == 10
        assert CounterCell.objects.count() == 20


def test_a_block_of_async_code_that_fails_counts_nothing() -> None:
    async def count() -> None:
        async with Counter.objects.acollect():
            await Counter.objects.aincrement("hits:a", tags={"country": "DE"})
            raise LookupError

    with override_counters(hits=MEASURED):
        with pytest.raises(LookupError):
            async_to_sync(count)()
        land()
        assert (Counter.objects.value("hits:a"), cells("hits:a")) == (0, {})
