"""When a server is left alone, and who may try whether it is back."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from django_counters.stores.redis.breaker import Breaker

THREADS = 20


class Clock:
    """Time that passes when told."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        # Another thread may come in between here.
        time.sleep(0)
        return self.now


def admitted(breaker: Breaker) -> int:
    ticket = breaker.admit()
    assert ticket is not None
    return ticket


def opened(clock: Clock) -> Breaker:
    breaker = Breaker(clock=clock)
    for _ in range(3):
        breaker.failed(admitted(breaker))
    return breaker


def test_three_failures_in_a_row_open_it_for_a_second() -> None:
    clock = Clock()
    breaker = Breaker(clock=clock)
    for _ in range(2):
        breaker.failed(admitted(breaker))
    breaker.succeeded(admitted(breaker))
    for _ in range(3):
        breaker.failed(admitted(breaker))
    assert breaker.admit() is None
    clock.now += 0.99
    assert breaker.admit() is None
    clock.now += 0.02
    assert breaker.admit() is not None


def test_one_probe_at_a_time_and_its_success_closes() -> None:
    clock = Clock()
    breaker = opened(clock)
    clock.now += 2
    probe = admitted(breaker)
    clock.now += 100
    assert breaker.admit() is None
    breaker.succeeded(probe)
    # Closed as before: it takes three failures again.
    for _ in range(2):
        breaker.failed(admitted(breaker))
    assert breaker.admit() is not None


def test_a_probe_that_fails_opens_it_for_another_second() -> None:
    clock = Clock()
    breaker = opened(clock)
    clock.now += 2
    breaker.failed(admitted(breaker))
    assert breaker.admit() is None
    clock.now += 1.01
    assert breaker.admit() is not None


def test_a_probe_that_was_broken_off_lets_the_next_one_through_at_once() -> None:
    clock = Clock()
    breaker = opened(clock)
    clock.now += 2
    breaker.abandoned(admitted(breaker))
    assert breaker.admit() is not None
    assert breaker.admit() is None


def test_calls_that_are_broken_off_say_nothing() -> None:
    breaker = Breaker(clock=Clock())
    for _ in range(10):
        breaker.abandoned(admitted(breaker))
    assert breaker.admit() is not None


def test_what_slow_calls_say_does_not_concern_a_later_state() -> None:
    clock = Clock()
    breaker = Breaker(clock=clock)
    slow = [admitted(breaker) for _ in range(6)]
    for ticket in slow[:3]:
        breaker.failed(ticket)
    breaker.succeeded(slow[3])
    assert breaker.admit() is None
    clock.now += 2
    probe = admitted(breaker)
    breaker.failed(slow[4])
    breaker.succeeded(slow[5])
    assert breaker.admit() is None
    breaker.succeeded(probe)
    assert breaker.admit() is not None


def crowd(call: Callable[[], object]) -> list[object]:
    together = threading.Barrier(THREADS)

    def one(_: int) -> object:
        together.wait(10)
        return call()

    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(one, range(THREADS)))


def test_of_twenty_threads_one_may_probe() -> None:
    clock = Clock()
    breaker = opened(clock)
    for _ in range(50):
        clock.now += 2
        tickets = [ticket for ticket in crowd(breaker.admit) if ticket is not None]
        assert len(tickets) == 1
        assert isinstance(tickets[0], int)
        breaker.failed(tickets[0])


def test_twenty_threads_at_work_never_have_two_probes() -> None:
    clock = Clock()
    breaker = opened(clock)
    busy = threading.Lock()

    def work() -> int:
        clashes = 0
        for turn in range(300):
            clock.now += 0.5
            ticket = breaker.admit()
            if ticket is None:
                continue
            if busy.acquire(blocking=False):
                # Never a success: it stays open, and whoever is let through is a probe.
                (breaker.failed if turn % 3 else breaker.abandoned)(_released(busy, ticket))
            else:
                clashes += 1
        return clashes

    assert crowd(work) == [0] * THREADS


def _released(busy: threading.Lock, ticket: int) -> int:
    busy.release()
    return ticket


def test_of_many_tasks_one_may_probe() -> None:
    clock = Clock()
    breaker = opened(clock)
    clock.now += 2

    async def task() -> int | None:
        await asyncio.sleep(0)
        return breaker.admit()

    async def main() -> list[int | None]:
        return await asyncio.gather(*(task() for _ in range(100)))

    assert sum(ticket is not None for ticket in asyncio.run(main())) == 1
