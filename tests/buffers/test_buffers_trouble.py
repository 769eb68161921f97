"""Buffers beside each other: what befalls one, or its thread, keeps no other from landing."""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.db import connection, connections, transaction

from django_counters.contrib import buffers
from django_counters.contrib.buffers import pages, threads
from django_counters.contrib.buffers.buffer import Buffer
from django_counters.contrib.buffers.process import buffers as present
from django_counters.contrib.buffers.threads import Worker
from django_counters.errors import CounterUnavailable
from django_counters.models import Counter, CounterIncident
from django_counters.signals import batch_applied, incident_recorded
from django_counters.testing import override_counters
from django_counters.types import INT8, Unknown
from tests.buffers.buffering import LATER, landed
from tests.redis.counting import eventually

pytestmark = [pytest.mark.django_db(transaction=True)]
Land = Callable[..., None]


@pytest.fixture(autouse=True)
def _declared() -> Iterator[None]:
    present.clear()
    with override_counters(
        hits={"BUFFER": LATER},
        other={"BUFFER": {**LATER, "most": 100}},
        full={"BUFFER": {**LATER, "most": 1}},
        left={"BUFFER": {**LATER, "most": 2}},
        right={"BUFFER": {**LATER, "most": 3}},
    ):
        yield
    present.clear()


@pytest.fixture
def land() -> Land:
    """What lands in a database, as it is."""
    return pages.InDatabase.land


def in_threads(*work: Callable[[], object]) -> None:
    """Do it at once; whoever waits for ever is found."""

    def close(one: Callable[[], object]) -> None:
        try:
            one()
        finally:
            connections.close_all()

    crowd = [threading.Thread(target=close, args=[one], daemon=True) for one in work]
    for one in crowd:
        one.start()
    until = time.monotonic() + 30
    for one in crowd:
        one.join(max(0.0, until - time.monotonic()))
    if any(one.is_alive() for one in crowd):
        # They hold their buffers for ever.
        present.begin_in_child()
        pytest.fail("they wait for each other")


class TestTheEnd:
    def test_a_buffer_that_comes_later_takes_nothing(self) -> None:
        with override_counters(late={"BUFFER": {**LATER, "most": 77}}):
            Counter.objects.increment("hits:home")
            present.close()
            assert Counter.objects.increment("late:home", 3) == 3
            buffers.handle("late:home").increment()
            assert (landed("late:home"), landed()) == (4, 1)

    def test_an_error_that_nobody_has_foreseen_stops_no_other(
        self, land: Land, monkeypatch: Any, caplog: Any
    ) -> None:
        def strange(self: Any, page: Any) -> None:
            if "hits:home" in page.entries:
                raise ZeroDivisionError
            land(self, page)

        Counter.objects.increment("hits:home")
        Counter.objects.increment("other:home", 5)
        monkeypatch.setattr(pages.InDatabase, "land", strange)
        present.close()
        assert (landed("other:home"), landed()) == (5, 0)
        assert "ZeroDivisionError" in caplog.text


class TestThreads:
    def test_none_can_be_started(self, monkeypatch: Any, caplog: Any) -> None:
        """All counts at once, and waits again when one can be."""
        monkeypatch.setattr(present, "_workers", {})
        handle = buffers.handle("hits:home")
        before = threading.stack_size(1 << 46)
        try:
            for turn in range(1, 4):
                assert Counter.objects.increment("hits:home") == 2 * turn - 1
                handle.increment()
                assert landed() == 2 * turn
        finally:
            threading.stack_size(before)
        assert len([one for one in caplog.records if "no thread lands" in one.message]) == 1
        assert isinstance(Counter.objects.increment("hits:home"), Unknown)
        assert landed() == 6
        (worker,) = present._workers.values()
        assert eventually(worker._running.locked, 30), "nobody lands it"

    @pytest.mark.many_writers
    @pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
    @pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
    @pytest.mark.parametrize("way", ["filter", "exit"])
    def test_one_that_dies_is_replaced_while_something_waits(
        self, land: Land, way: str, monkeypatch: Any
    ) -> None:
        """By a filter of the log that raises, or by a receiver that wants the process to end."""
        failures = iter([1, 2])

        def fail(self: Any, page: Any) -> None:
            if next(failures, None) is None:
                return land(self, page)
            if way == "exit":
                sys.exit()
            raise CounterUnavailable(using="default", reason="away")

        class Raises(logging.Filter):
            def filter(self, record: logging.LogRecord) -> bool:
                raise ZeroDivisionError

        raises, log = Raises(), logging.getLogger("django_counters")
        monkeypatch.setattr(pages.InDatabase, "land", fail)
        monkeypatch.setattr(threads, "PAUSE", 0.05, raising=False)
        log.addFilter(raises)
        try:
            with override_counters(soon={"BUFFER": {"seconds": 0.05}}):
                Counter.objects.increment("soon:home", 5)
                (buffer,) = [one for _, one in present.those_of() if one.entries]
                assert eventually(lambda: not buffer.amounts(), 30), "no thread lands it"
                assert landed("soon:home") == 5
        finally:
            log.removeFilter(raises)

    @pytest.mark.many_writers
    @pytest.mark.django_db(transaction=True, databases=["default", "other"])
    def test_one_that_does_not_answer_holds_up_no_other(self, land: Land, monkeypatch: Any) -> None:
        begun, go = threading.Event(), threading.Event()

        def hang(self: Any, page: Any) -> None:
            if self.using == "default":
                begun.set()
                go.wait(60)
            land(self, page)

        with override_counters(soon={"BUFFER": {"seconds": 0.05}}):
            monkeypatch.setattr(pages.InDatabase, "land", hang)
            Counter.objects.increment("soon:home")
            try:
                assert begun.wait(30)
                Counter.objects.increment("soon:home", using="other")
                waits = [one for _, one in present.those_of("other")]
                assert eventually(lambda: not any(one.amounts() for one in waits), 30)
                assert not go.is_set()
            finally:
                go.set()
            assert eventually(lambda: landed("soon:home") == 1, 30)


class TestFull:
    @pytest.mark.postgresql
    @pytest.mark.many_writers
    @pytest.mark.parametrize("lands", [True, False])
    def test_a_handler_that_interrupts_a_statement_waits_for_nothing(
        self, land: Land, lands: bool, monkeypatch: Any
    ) -> None:
        """The driver has locked the connection of the thread until the statement has ended."""
        kept: dict[str, bool] = {}
        keys = [f"full:{number}" for number in range(4)]

        def count(*_: object) -> None:
            if kept:
                pytest.fail("it waits for its own thread")
            for key in keys:
                kept[key] = False
                with suppress(CounterUnavailable):
                    Counter.objects.increment(key)
                    kept[key] = True

        def away(*arguments: Any) -> None:
            if not lands:
                raise CounterUnavailable(using="default", reason="away")
            land(*arguments)

        Counter.objects.increment("full:a")
        before = signal.signal(signal.SIGALRM, count)
        with monkeypatch.context() as patch:
            patch.setattr(pages.InDatabase, "land", away)
            signal.setitimer(signal.ITIMER_REAL, 0.3, 3)
            try:
                with connection.cursor() as cursor:
                    cursor.execute("SELECT pg_sleep(1)")
            except BaseException:
                # It was interrupted in a transaction that nothing ends.
                del connections["default"]
                raise
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
                signal.signal(signal.SIGALRM, before)
        assert True in kept.values()
        assert lands or False in kept.values()
        buffers.flush()
        assert {key: landed(key) for key in keys} == {key: int(kept[key]) for key in keys}

    @pytest.mark.many_writers
    def test_each_outage_is_tried_once(self, monkeypatch: Any) -> None:
        """By whoever finds the buffer full first; the others do not wait for attempts of theirs."""
        attempts, go = list[int](), threading.Event()
        crowd, asked = set[int](), set[int]()
        is_due = Buffer._is_due

        def asks(buffer: Buffer) -> bool:
            due = is_due(buffer)
            asked.add(threading.get_ident())
            return due

        def away(*_: Any) -> None:
            attempts.append(1)
            go.wait(30)
            raise CounterUnavailable(using="default", reason="away")

        monkeypatch.setattr(pages.InDatabase, "land", away)
        monkeypatch.setattr(Buffer, "_is_due", asks)
        Counter.objects.increment("full:a")
        Counter.objects.increment("full:a")

        def work(number: int) -> None:
            crowd.add(threading.get_ident())
            for turn in range(3):
                Counter.objects.increment(f"full:{number}-{turn}")

        def release() -> None:
            # All of them have found it full by then.
            assert eventually(lambda: bool(attempts) and len(crowd & asked) == 3, 30)
            go.set()

        in_threads(release, *[lambda number=number: work(number) for number in range(3)])
        assert len(attempts) == 1
        keys = [f"full:{number}-{turn}" for number in range(3) for turn in range(3)]
        assert set(Counter.objects.values_of(keys).values()) == {1}
        assert Counter.objects.value("full:a") == 2

    def test_an_event_loop_has_room_for_three_times_as_many(self, monkeypatch: Any) -> None:
        """Where nothing can be landed; what comes then is counted by itself."""

        def away(*_: Any) -> None:
            raise CounterUnavailable(using="default", reason="away")

        async def work(turn: int) -> None:
            for number in range(250):
                await Counter.objects.aincrement(f"other:{turn}-{number}")
            await sync_to_async(connections.close_all)()

        monkeypatch.setattr(pages.InDatabase, "land", away)
        for turn in range(3):
            asyncio.run(work(turn))
            with pytest.raises(CounterUnavailable):
                buffers.flush()
        (waits,) = [waits for _, waits in present.waiting("default") if waits.entries]
        assert waits.entries == 300

    @pytest.mark.parametrize("error", [ZeroDivisionError, RuntimeError])
    def test_whatever_keeps_it_from_landing_loses_nothing(
        self, error: type[Exception], monkeypatch: Any
    ) -> None:
        def strange(*_: Any) -> None:
            raise error

        monkeypatch.setattr(pages.InDatabase, "land", strange)
        Counter.objects.increment("full:z")
        with transaction.atomic():
            for name in "abc":
                Counter.objects.increment(f"full:{name}", 10)
        values = Counter.objects.values_of([f"full:{name}" for name in "abcz"])
        assert list(values.values()) == [10, 10, 10, 1]

    def test_who_finds_it_full_hears_of_no_error(self, monkeypatch: Any, caplog: Any) -> None:
        """Not even of one that nobody has foreseen: the log tells of it."""

        def strange(*_: Any) -> None:
            raise ZeroDivisionError

        monkeypatch.setattr(pages.InDatabase, "land", strange)
        # No other thread tries first.
        monkeypatch.setattr(Worker, "wake", lambda _: True)
        for name in "zab":
            Counter.objects.increment(f"full:{name}", 10)
        assert "ZeroDivisionError" in caplog.text
        # Two wait, and what came then is counted by itself.
        assert [landed(f"full:{name}") for name in "zab"] == [0, 0, 10]

    @pytest.mark.many_writers
    def test_two_that_fill_each_other(self) -> None:
        """Who hears of a landing counts in the other one, which is landed at the same moment."""
        both = threading.Barrier(2, timeout=20)
        keys = {"left:a": "right", "right:a": "left"}

        def fill(batch: Any, **_: object) -> None:
            other = keys.get(batch.deltas[0].key)
            if other:
                both.wait()
                for number in range(5):
                    Counter.objects.increment(f"{other}:{number}")

        for key in keys:
            Counter.objects.increment(key)
        pair = [one for _, one in present.those_of() if one.entries]
        assert len(pair) == 2
        batch_applied.connect(fill)
        try:
            in_threads(*[one.flush for one in pair])
        finally:
            batch_applied.disconnect(fill)
        buffers.flush()
        filled = [f"{name}:{number}" for name in ("left", "right") for number in range(5)]
        assert {landed(key) for key in (*keys, *filled)} == {1}


def test_who_hears_of_an_incident_stops_no_landing(monkeypatch: Any) -> None:
    monkeypatch.setattr(pages, "LARGE", 2**64)

    def listen(**_: object) -> None:
        raise ZeroDivisionError

    for _ in range(2):
        Counter.objects.increment("hits:home", INT8[1])
    Counter.objects.increment("hits:other")
    incident_recorded.connect(listen)
    try:
        buffers.flush()
    finally:
        incident_recorded.disconnect(listen)
    assert (landed(), landed("hits:other")) == (0, 1)
    assert CounterIncident.objects.count() == 1


@pytest.mark.rare
def test_who_is_interrupted_before_a_fork_holds_nothing_up(monkeypatch: Any) -> None:
    class Interrupted:
        def acquire(self, *_: object, **__: object) -> bool:
            raise KeyboardInterrupt

    Counter.objects.increment("hits:home")
    Counter.objects.increment("other:home")
    first, second = (one for _, one in present.those_of() if one.entries)
    with monkeypatch.context() as patch:
        patch.setattr(second, "landing", Interrupted())
        with pytest.raises(KeyboardInterrupt):
            present.before_fork()
        present.after_fork()
    in_threads(first.flush)
    assert not first.entries
