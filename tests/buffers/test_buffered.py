"""Increments that wait in the buffer of their process: each is counted once, or not at all."""

from __future__ import annotations

import asyncio
import gc
import threading
import tracemalloc
from collections import Counter as Tally
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from asgiref.sync import async_to_sync, sync_to_async
from django.db import connections, transaction

from django_counters import clock
from django_counters.contrib import buffers, holds
from django_counters.contrib.buffers import pages
from django_counters.contrib.buffers.buffer import Backlog
from django_counters.contrib.buffers.counting import BUFFERED
from django_counters.contrib.buffers.process import buffers as present
from django_counters.contrib.holds.errors import UnsupportedHold
from django_counters.contrib.series.models import CounterCell
from django_counters.errors import (
    CounterOverflow,
    CounterUnavailable,
    InvalidConfiguration,
    InvalidDelta,
    InvalidTags,
    OutcomeUnknown,
    UnsupportedBounds,
    UnsupportedMaximum,
)
from django_counters.metrics.doctor import examine
from django_counters.metrics.samples import samples_of, scraping
from django_counters.models import Counter, CounterIncident, CounterPosition
from django_counters.signals import batch_applied
from django_counters.strategies.base import Summed
from django_counters.testing import override_counters
from django_counters.tokens import mint
from django_counters.types import INT8, Result, Unknown
from tests.buffers.buffering import LATER, landed

pytestmark = [pytest.mark.django_db(transaction=True)]
INNER = ("exact", "sharded")


@pytest.fixture(params=INNER)
def inner(request: pytest.FixtureRequest) -> str:
    """The strategy behind the buffer."""
    return str(request.param)


@pytest.fixture(autouse=True)
def _hits(inner: str) -> Iterator[None]:
    hits = {"STRATEGY": inner, "BUFFER": LATER}
    present.clear()
    with override_counters(hits=hits, plain={}):
        yield
    present.clear()


def reason(result: Result) -> str:
    assert isinstance(result, Unknown)
    return result.reason


def test_it_waits_and_lands_as_a_sum() -> None:
    assert reason(Counter.objects.increment("hits:home")) == BUFFERED
    Counter.objects.increment("hits:home", 4)
    Counter.objects.decrement("hits:home", 2)
    assert (landed(), Counter.objects.value("hits:home")) == (0, 3)
    assert buffers.flush() == 1
    assert (landed(), Counter.objects.value("hits:home")) == (3, 3)
    assert buffers.flush() == 0


def test_many_at_once() -> None:
    found = Counter.objects.increment_many({"hits:a": 1, "plain:b": 2, "hits:c": 3})
    assert [one.value for one in found.values()] == [None, 2, None]
    assert Counter.objects.values_of(["hits:a", "plain:b", "hits:c"]) == {
        "hits:a": 1,
        "plain:b": 2,
        "hits:c": 3,
    }
    assert landed("hits:a") == 0
    buffers.flush()
    assert (landed("hits:a"), landed("hits:c")) == (1, 3)


def test_read_tells_what_waits() -> None:
    Counter.objects.increment("hits:home", 2)
    buffers.flush()
    Counter.objects.increment("hits:home", 3)
    reading = Counter.objects.read("hits:home")
    assert reading.value == 5
    assert reading.pending >= 3


def test_what_comes_to_nothing_makes_no_counter(inner: str) -> None:
    Counter.objects.increment("hits:home")
    Counter.objects.decrement("hits:home")
    buffers.flush()
    assert not Counter.objects.filter(key="hits:home").exists()


class TestTransactions:
    def test_it_enters_the_buffer_after_the_commit(self) -> None:
        with transaction.atomic():
            assert reason(Counter.objects.increment("hits:home")) == Unknown.COMMIT
            Counter.objects.increment("hits:home")
            assert Counter.objects.value("hits:home") == 0
        assert (landed(), Counter.objects.value("hits:home")) == (0, 2)

    def test_a_rollback_drops_it(self) -> None:
        handle = buffers.handle("hits:home")
        # Known to the buffer: that is the short way.
        handle.increment(100)
        with pytest.raises(ZeroDivisionError), transaction.atomic():
            Counter.objects.increment("hits:home")
            handle.increment()
            raise ZeroDivisionError
        with transaction.atomic():
            with pytest.raises(ZeroDivisionError), transaction.atomic():
                handle.increment()
                raise ZeroDivisionError
            handle.increment(10)
        buffers.flush()
        assert Counter.objects.value("hits:home") == 110

    def test_nothing_is_landed_in_a_transaction(self) -> None:
        Counter.objects.increment("hits:home")
        with transaction.atomic(), pytest.raises(RuntimeError):
            buffers.flush()
        buffers.flush()
        assert landed() == 1


class TestPast:
    def test_a_token_goes_past_it(self) -> None:

        token = mint(clock.utc())
        first = Counter.objects.increment("hits:home", 5, token=token)
        again = Counter.objects.increment("hits:home", 5, token=token)
        assert (first.replayed, again.replayed) == (False, True)
        assert landed() == 5

    def test_immediately(self) -> None:
        assert Counter.objects.increment("hits:home", immediately=True) == 1
        assert landed() == 1

    def test_bounds_are_refused(self) -> None:
        with pytest.raises(UnsupportedBounds):
            Counter.objects.decrement("hits:home", floor=0)

    def test_what_needs_the_value_is_refused(self) -> None:
        with pytest.raises(UnsupportedMaximum):
            Counter.objects.maximum("hits:home", 5)
        with pytest.raises(UnsupportedHold):
            holds.hold("hits:home", 1, minutes=1)


class TestHandle:
    def test_it_counts(self) -> None:
        handle = buffers.handle("hits:home")
        for _ in range(10):
            handle.increment()
        handle.increment(5)
        handle.decrement(2)
        assert (landed(), Counter.objects.value("hits:home")) == (0, 13)
        buffers.flush()
        handle.increment()
        assert (landed(), Counter.objects.value("hits:home")) == (13, 14)
        assert repr(handle) == "<handle: hits:home>"

    @pytest.mark.parametrize("by", [False, True, 1.5, "1", 2**63])
    def test_what_is_no_amount(self, by: Any) -> None:
        with pytest.raises(InvalidDelta):
            buffers.handle("hits:home").increment(by)

    def test_it_needs_a_buffer(self) -> None:
        with pytest.raises(InvalidConfiguration, match="declares no BUFFER"):
            buffers.handle("plain:home")

    @pytest.mark.rare
    def test_threads(self) -> None:
        handle = buffers.handle("hits:home")

        def work() -> None:
            for _ in range(5_000):
                handle.increment()

        crowd = [threading.Thread(target=work) for _ in range(4)]
        for one in crowd:
            one.start()
        while any(one.is_alive() for one in crowd):
            buffers.flush()
        for one in crowd:
            one.join()
        buffers.flush()
        assert landed() == 20_000


def test_async() -> None:
    handle = buffers.handle("hits:home")

    async def work() -> None:
        results = [await Counter.objects.aincrement("hits:home") for _ in range(3)]
        assert {reason(result) for result in results} == {BUFFERED}
        handle.increment()
        assert await Counter.objects.avalue("hits:home") == 4
        await sync_to_async(connections.close_all)()

    asyncio.run(work())
    assert landed() == 0
    buffers.flush()
    assert landed() == 4


class TestLanding:
    def test_a_lost_answer_is_no_second_count(self, inner: str, monkeypatch: Any) -> None:
        """The same page is sent again, under the same id."""
        made = pages.InDatabase
        land, ids = made.land, list[str]()

        def lose(self: Any, page: Any) -> None:
            land(self, page)
            ids.append(page.name)
            raise OutcomeUnknown(using="default")

        Counter.objects.increment("hits:home", 7)
        monkeypatch.setattr(made, "land", lose)
        for _ in range(2):
            with pytest.raises(OutcomeUnknown):
                buffers.flush()
            # It has landed, and the buffer does not know it yet.
            Counter.objects.increment("hits:home")
            assert landed() == 7
        assert Counter.objects.value("hits:home") == 9
        monkeypatch.setattr(made, "land", land)
        buffers.flush()
        assert (landed(), Counter.objects.value("hits:home")) == (9, 9)
        assert len(set(ids)) == 1

    def test_what_is_refused_lands_later(self, inner: str, monkeypatch: Any) -> None:
        made = pages.InDatabase
        land = made.land

        def refuse(*_: Any) -> None:
            raise CounterUnavailable(using="default", reason="it is away")

        Counter.objects.increment("hits:home", 7)
        monkeypatch.setattr(made, "land", refuse)
        with pytest.raises(CounterUnavailable):
            buffers.flush()
        Counter.objects.increment("hits:home")
        assert Counter.objects.value("hits:home") == 8
        monkeypatch.setattr(made, "land", land)
        buffers.flush()
        assert (landed(), Counter.objects.value("hits:home")) == (8, 8)

    def test_a_read_meets_a_landing(self, inner: str, monkeypatch: Any) -> None:
        """It lands after the buffer was asked, and before the database is: it is in both, once."""
        strategy: Any = Summed
        values, turns = strategy.values, list[int]()
        Counter.objects.increment("hits:home", 7)

        def meet(self: Any, *arguments: Any) -> Any:
            if not turns:
                turns.append(buffers.flush())
            return values(self, *arguments)

        monkeypatch.setattr(strategy, "values", meet)
        assert Counter.objects.values_of(["hits:home"]) == {"hits:home": 7}
        assert turns == [1]

    def test_a_landing_follows_a_read(self, inner: str, monkeypatch: Any) -> None:
        """It lands after the database was asked: it is in neither, unless the read notices."""
        strategy: Any = Summed
        values, turns = strategy.values, list[int]()
        Counter.objects.increment("hits:home", 7)

        def meet(self: Any, *arguments: Any) -> Any:
            found = values(self, *arguments)
            if not turns:
                turns.append(buffers.flush())
            return found

        monkeypatch.setattr(strategy, "values", meet)
        assert Counter.objects.values_of(["hits:home"]) == {"hits:home": 7}
        assert turns == [1]

    @pytest.mark.parametrize("inner", ["exact"], indirect=True)
    def test_a_huge_amount_takes_no_other_along(self) -> None:
        handle = buffers.handle("hits:home")
        assert Counter.objects.increment("hits:home", 2**62) == 2**62
        for turn in range(3):
            Counter.objects.increment("hits:home")
            handle.increment()
            for huge in (Counter.objects.increment, lambda _, by: handle.increment(by)):
                with pytest.raises(CounterOverflow):
                    huge("hits:home", 2**62)
            with pytest.raises(CounterOverflow):
                async_to_sync(Counter.objects.aincrement)("hits:home", 2**62)
            with transaction.atomic(), pytest.raises(CounterOverflow):
                Counter.objects.increment("hits:home", 2**62)
            buffers.flush()
            assert landed() == 2**62 + 2 * (turn + 1)
        assert not CounterIncident.objects.exists()

    def test_one_that_does_not_fit_stops_no_other(self, inner: str, monkeypatch: Any) -> None:
        monkeypatch.setattr(pages, "LARGE", 2**64)
        Counter.objects.increment("hits:home", INT8[1])
        Counter.objects.increment("hits:home", INT8[1])
        Counter.objects.increment_many({"hits:a": 1, "hits:b": 2, "hits:c": 3})
        buffers.flush()
        found = Counter.objects.values_of(["hits:home", "hits:a", "hits:b", "hits:c"])
        assert found == {"hits:home": 0, "hits:a": 1, "hits:b": 2, "hits:c": 3}
        (incident,) = CounterIncident.objects.all()
        assert incident.detail["amounts"] == {"hits:home": 2 * INT8[1]}

    def test_a_buffer_has_one_position(self, inner: str) -> None:
        for _ in range(5):
            Counter.objects.increment("hits:home")
            buffers.flush()
        assert CounterPosition.objects.filter(source="buffer").count() == 1

    def test_a_landing_whose_listener_counts(self) -> None:

        def listen(**_: object) -> None:
            if Counter.objects.value("hits:home") < 3:
                Counter.objects.increment("hits:home")
                buffers.flush()

        batch_applied.connect(listen)
        try:
            Counter.objects.increment("hits:home")
            for _ in range(4):
                buffers.flush()
        finally:
            batch_applied.disconnect(listen)
        assert landed() == 3


class TestRoom:
    def test_who_finds_it_full_lands_it(self, inner: str) -> None:
        full = {"STRATEGY": inner, "BUFFER": {**LATER, "most": 10}}
        with override_counters(full=full):
            for number in range(25):
                Counter.objects.increment(f"full:{number}")
            assert [landed(f"full:{number}") for number in (0, 19, 20)] == [1, 1, 0]
            keys = [f"full:{number}" for number in range(25)]
            assert set(Counter.objects.values_of(keys).values()) == {1}

    def test_a_full_one_that_cannot_be_landed_takes_nothing(
        self, inner: str, monkeypatch: Any
    ) -> None:
        full = {"STRATEGY": inner, "BUFFER": {**LATER, "most": 1}}
        made = pages.InDatabase

        def refuse(*_: Any) -> None:
            raise CounterUnavailable(using="default", reason="it is away")

        with override_counters(full=full):
            monkeypatch.setattr(made, "land", refuse)
            Counter.objects.increment("full:a")
            Counter.objects.increment("full:b")
            # Counted by itself, past the buffer, which is full twice over.
            assert Counter.objects.increment("full:c") == 1
            assert landed("full:c") == 1
            assert Counter.objects.values_of(["full:a", "full:b"]) == {"full:a": 1, "full:b": 1}

    def test_an_event_loop_waits_for_nobody(self, inner: str) -> None:
        full = {"STRATEGY": inner, "BUFFER": {**LATER, "most": 2}}
        with override_counters(full=full):

            async def work() -> None:
                for number in range(8):
                    await Counter.objects.aincrement(f"full:{number}")
                await sync_to_async(connections.close_all)()

            asyncio.run(work())
            # What the thread is landing: SQLite in memory lets nobody read beside it.
            buffers.flush()
            keys = [f"full:{number}" for number in range(8)]
            assert set(Counter.objects.values_of(keys).values()) == {1}

    @pytest.mark.parametrize("inner", ["exact"], indirect=True)
    def test_many_keys_leave_the_memory_as_it_was(self, monkeypatch: Any) -> None:
        monkeypatch.setattr(pages.InDatabase, "land", lambda *_: None)

        def turn(keys: int) -> int:
            for key in range(keys):
                Counter.objects.increment(f"hits:{keys}-{key}")
            buffers.flush()
            gc.collect()
            return tracemalloc.get_traced_memory()[0]

        tracemalloc.start()
        try:
            before = turn(1_000)
            assert turn(20_000) - before < 200_000
        finally:
            tracemalloc.stop()


@pytest.mark.rare
def test_the_thread_lands_it() -> None:
    landings = threading.Semaphore(0)

    def listen(**_: object) -> None:
        landings.release()

    batch_applied.connect(listen)
    try:
        with override_counters(soon={"BUFFER": {"seconds": 0.05}}):
            for turn in range(1, 4):
                Counter.objects.increment("soon:a")
                assert landings.acquire(timeout=30), "nobody has landed it"
                assert landed("soon:a") == turn
    finally:
        batch_applied.disconnect(listen)


class TestSeries:
    @pytest.fixture(autouse=True)
    def _counted(self, inner: str) -> Iterator[None]:
        views = {"STRATEGY": inner, "BUFFER": LATER}
        with override_counters(seen={**views, "PER": ["hour", "day"], "TAGS": {"country": 10}}):
            yield

    def test_cells_land_with_their_totals(self, inner: str) -> None:
        handle = buffers.handle("seen:a")
        for country in ("de", "de", "fr"):
            Counter.objects.increment("seen:a", tags={"country": country})
        Counter.objects.increment("seen:a", 2, at=clock.utc() - timedelta(days=3))
        handle.increment()
        assert (landed("seen:a"), Counter.objects.value("seen:a")) == (0, 6)
        buffers.flush()
        assert (landed("seen:a"), Counter.objects.value("seen:a")) == (6, 6)
        days = CounterCell.objects.filter(key="seen:a", period=CounterCell.Period.DAY)
        sums: Tally[str] = Tally()
        for cell in days:
            sums[cell.tags] += cell.value
        assert sums == {"de": 2, "fr": 1, "": 3}
        assert days.values("start").distinct().count() == 2

    def test_what_is_wrong_is_refused_at_once(self) -> None:
        with pytest.raises(InvalidTags):
            Counter.objects.increment("seen:a", tags={"city": "Rome"})
        assert Counter.objects.value("seen:a") == 0


def test_the_doctor_and_metrics_tell_what_waits(inner: str) -> None:
    Counter.objects.increment("hits:home", 3)
    Counter.objects.decrement("hits:about", 2)
    (found,) = [one for one in examine() if one.subject == "buffer of this process"]
    assert (found.strategy, found.counters, found.needed) == (inner, 2, False)
    *_, scrape = scraping("default")
    told = {one.metric.name: one for one in samples_of(scrape) if one.labels == ("default", inner)}
    amount, age = (
        told["django_counters_buffered_amount"],
        told["django_counters_buffer_age_seconds"],
    )
    assert (amount.labels, amount.value) == (("default", inner), 5)
    assert age.value > 0
    buffers.flush()
    assert {waits for _, waits in present.waiting("default")} == {Backlog(0, 0, 0.0)}


@pytest.mark.rare
def test_no_child_is_forked_in_a_landing(inner: str, monkeypatch: Any) -> None:
    made = pages.InDatabase
    land, begun, ended = made.land, threading.Event(), threading.Event()

    def slowly(*arguments: Any) -> None:
        begun.set()
        # For as long as a fork that waits for nothing would take, and longer.
        ended.wait(0.3)
        land(*arguments)
        ended.set()

    def work() -> None:
        buffers.flush()
        connections.close_all()

    monkeypatch.setattr(made, "land", slowly)
    Counter.objects.increment("hits:home")
    lander = threading.Thread(target=work)
    lander.start()
    assert begun.wait(30)
    present.before_fork()
    try:
        assert ended.is_set()
    finally:
        present.after_fork()
        lander.join()
    assert landed() == 1
