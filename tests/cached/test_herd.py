"""Many who read one cached counter at once: one asks the database, whatever becomes of him."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from django_counters import clock
from django_counters.cached.sources import pending_in, slots_of
from django_counters.models import Counter, CounterShard
from django_counters.redis.keys import slot_of
from django_counters.tokens import mint
from tests.cached.test_away import database_away
from tests.cached.test_round_trips import watched
from tests.concurrency.crowd import PATIENCE, Threads
from tests.concurrency.servers import execute, waiting
from tests.redis.counting import eventually

pytestmark = [
    pytest.mark.rare,
    pytest.mark.django_db(transaction=True),
    pytest.mark.usefixtures("cached"),
]
HERD, HOUR = 12, 3600
# For how long a turn lasts, and after how long everybody asks: seconds.
TURN, LONGEST = 0.5, 1.0
Aging = Callable[[int], None]
read = partial(Counter.objects.read, "views:a", consistency="cached", max_age=HOUR)


@pytest.fixture
def aged(cached: str, server: Any) -> Aging:
    """Lets the known total, 0, be so many seconds old. In truth it is 5."""
    assert read().value == 0
    CounterShard.objects.increment("views:a", 5)
    base = slots_of("default", cached).keys(slot_of("views:a"))[1]

    def age(seconds: int) -> None:
        # Nobody has asked before, and what was found then was 0.
        server.hdel(base, "\0aviews:a")
        server.hset(
            base, mapping={"views:a": 0, "\0mviews:a": server.time()[0] * 1000 - seconds * 1000}
        )

    return age


def take_turn() -> None:
    """Somebody is to ask, and dies before he does."""
    pending = pending_in("default", 10, "default")
    assert pending.send(pending.look(["views:a"], HOUR * 1000))["views:a"].total is None


class Herd:
    """Readers that start at once; no query is answered until the block ends."""

    def __init__(self) -> None:
        self.answers: list[tuple[int, int]] = []
        self.times: list[float] = []

    @contextmanager
    def held_up(self) -> Iterator[None]:
        with ThreadPoolExecutor(1) as pool:
            with transaction.atomic():
                execute("LOCK TABLE django_counters_counter IN ACCESS EXCLUSIVE MODE")
                done: Future[Any] = pool.submit(Threads(HERD).run, self._read)
                yield
            done.result(PATIENCE)

    def _read(self, _number: int) -> None:
        self.times.append(time.monotonic())
        with CaptureQueriesContext(connection) as queries:
            value = read().value
        self.answers.append((value, len(queries)))
        self.times.append(time.monotonic())

    @property
    def queries(self) -> int:
        return sum(queries for _, queries in self.answers)

    @property
    def seconds(self) -> float:
        return max(self.times) - min(self.times)


@pytest.mark.postgresql
def test_one_asks_before_it_is_too_old_and_nobody_waits_for_him(
    aged: Aging, elsewhere: Callable[..., Any]
) -> None:
    aged(HOUR * 9 // 10)
    herd = Herd()
    with herd.held_up():
        assert eventually(lambda: len(herd.answers) == HERD - 1)
        assert eventually(lambda: elsewhere(waiting) == 1)
        assert herd.answers == [(0, 0)] * (HERD - 1)
    assert herd.answers[-1] == (5, 1)
    assert read().value == 5


@pytest.mark.postgresql
def test_one_asks_for_what_is_too_old_and_the_others_wait_for_him(
    aged: Aging, elsewhere: Callable[..., Any]
) -> None:
    for _ in range(20):
        aged(HOUR + 1)
        herd = Herd()
        with herd.held_up():
            assert eventually(lambda: elsewhere(waiting) > 0)
            # Time enough for the others to ask, too, if they did.
            eventually(lambda: elsewhere(waiting) == HERD, TURN / 2)
        assert {value for value, _ in herd.answers} == {5}
        # On a machine that stood still meanwhile, all may have asked in the end.
        if herd.seconds < LONGEST:
            break
    assert herd.seconds < LONGEST
    assert herd.queries <= 1 + herd.seconds // TURN


@pytest.mark.parametrize("seconds", [HOUR * 9 // 10, HOUR + 1])
def test_who_dies_in_his_turn_holds_nobody_up(
    aged: Aging, seconds: int, django_assert_num_queries: Any
) -> None:
    aged(seconds)
    take_turn()
    too_old = seconds > HOUR
    with django_assert_num_queries(too_old):
        assert read().value == 5 * too_old


def test_who_dies_in_his_turn_holds_no_event_loop_up(aged: Aging) -> None:
    aged(HOUR + 1)
    take_turn()
    reading = async_to_sync(Counter.objects.aread)("views:a", consistency="cached", max_age=HOUR)
    assert reading.value == 5


def test_an_exact_read_waits_for_nobody(aged: Aging, cached: str) -> None:
    aged(HOUR + 1)
    take_turn()
    with watched(cached) as told, CaptureQueriesContext(connection) as queries:
        assert Counter.objects.value("views:a") == 5
    assert (told, len(queries)) == (["look"], 1)
    # Nor does it take a turn that another one could have.
    aged(HOUR * 9 // 10)
    Counter.objects.value("views:a")
    assert read().value == 5


@pytest.mark.many_writers
def test_who_may_not_leave_it_lets_the_others_ask(
    aged: Aging, cached: str, elsewhere: Callable[..., Any]
) -> None:
    """What he has found may be what only his transaction sees."""
    aged(HOUR + 1)
    with transaction.atomic():
        CounterShard.objects.increment("views:a", 2)
        assert read().value == 7
        with watched(cached) as told:
            assert elsewhere(read).value == 5
    assert told == ["look", "fill"]


def test_a_correction_ends_the_turn(aged: Aging, cached: str) -> None:
    aged(HOUR + 1)
    take_turn()
    Counter.objects.adjust("views:a", to=9, reason="a correction", actor="somebody")
    with watched(cached) as told:
        assert read().value == 9
    assert told == ["look", "fill"]


@pytest.mark.many_writers
def test_without_the_database_what_is_known_is_good_to_the_end(aged: Aging) -> None:
    aged(HOUR * 9 // 10)
    with database_away():
        reading = read()
        assert (reading.value, reading.consistency) == (0, "cached")
        aged(50)
        assert Counter.objects.increment("views:a", 3) == 3


def test_a_token_returns_the_same_whoever_asked(
    aged: Aging, django_assert_num_queries: Any
) -> None:
    aged(HOUR + 1)
    take_turn()
    token = mint(clock.utc())
    assert Counter.objects.increment("views:a", token=token) == 6
    with django_assert_num_queries(0):
        assert Counter.objects.increment("views:a", token=token) == 6


def test_an_increment_asks_before_it_is_too_old(
    aged: Aging, django_assert_num_queries: Any
) -> None:
    Counter.objects.increment("views:a")
    aged(50)
    with django_assert_num_queries(1):
        values = [Counter.objects.increment("views:a") for _ in range(3)]
    assert values == [7, 8, 9]
