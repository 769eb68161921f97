"""When a server is left alone, and who may try whether it is back."""

from __future__ import annotations

import time

import pytest

from django_counters.redis.routes import Breaker
from tests.concurrency.crowd import at_once

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


def test_one_probe_at_a_time_and_its_success_closes() -> None:
    clock = Clock()
    breaker = opened(clock)
    states = [breaker.state]
    clock.now += 2
    states.append(breaker.state)
    probe = admitted(breaker)
    clock.now += 100
    assert breaker.admit() is None
    breaker.succeeded(probe)
    assert [*states, breaker.state] == ["open", "half-open", "closed"]
    # Closed as before: it takes three failures again.
    for _ in range(2):
        breaker.failed(admitted(breaker))
    assert breaker.admit() is not None


def test_calls_that_are_broken_off_say_nothing_and_let_the_next_one_through() -> None:
    clock = Clock()
    breaker = Breaker(clock=clock)
    for _ in range(10):
        breaker.abandoned(admitted(breaker))
    assert breaker.state == "closed"
    breaker = opened(clock)
    clock.now += 2
    breaker.abandoned(admitted(breaker))
    assert breaker.admit() is not None
    assert breaker.admit() is None


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


@pytest.mark.rare
def test_of_twenty_threads_one_may_probe() -> None:
    clock = Clock()
    breaker = opened(clock)
    for _ in range(20):
        clock.now += 2
        tickets = [
            ticket for ticket in at_once(lambda _: breaker.admit(), THREADS) if ticket is not None
        ]
        assert len(tickets) == 1
        assert isinstance(tickets[0], int)
        breaker.failed(tickets[0])
