"""How many each algorithm admits in a window, at moments that the tests choose, in both stores."""

from __future__ import annotations

from collections.abc import Iterable
from math import ceil

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from django_counters.access import Rate
from django_counters.contrib.limits.algorithms import Algorithm, LimitResult, Name, algorithm_of
from tests.limits.moved import SECOND, STORES, Kept, Moved, moved

MINUTE = 60 * SECOND
Takes = list[tuple[int, int]]


def take(kept: Kept, store: Moved, algorithm: Algorithm, cost: int = 1) -> LimitResult:
    return algorithm.result(kept(store, algorithm.draw(store.digest, cost)), cost)


def most_in_a_window(admitted: Iterable[tuple[int, int]], window: int) -> int:
    """The most that any window has, without its last microsecond: moments and costs."""
    found = list(admitted)
    sums = (sum(cost for at, cost in found if start <= at < start + window) for start, _ in found)
    return max(sums, default=0)


@pytest.mark.django_db
@STORES
@pytest.mark.parametrize(
    ("name", "burst", "most", "total"),
    [
        ("gcra", None, 19, 40),
        ("gcra", 4, 9, 22),
        ("fixed", None, 20, 40),
        ("log", None, 10, 32),
    ],
)
def test_what_each_admits(kept: Kept, name: Name, burst: int | None, most: int, total: int) -> None:
    """Ten a minute, asked twice a second for three minutes, from just before a minute ends on."""
    algorithm, admitted = algorithm_of(name, Rate(10, 60), burst), []
    with moved() as store:
        begin = store.now + MINUTE - 10 * SECOND
        for store.now in range(begin, begin + 3 * MINUTE + SECOND, SECOND // 2):
            if take(kept, store, algorithm):
                admitted.append((store.now, 1))
    assert most_in_a_window(admitted, MINUTE) == most
    assert len(admitted) == total


@st.composite
def limits(draw: st.DrawFn) -> tuple[Name, Rate, int | None]:
    """An algorithm, a rate, and a burst."""
    rate = Rate(draw(st.integers(2, 12)), draw(st.sampled_from([0.001, 1, 7, 60])))
    name: Name = draw(st.sampled_from(["gcra", "gcra", "fixed", "log"]))
    bursts = st.one_of(st.none(), st.integers(1, rate.number - 1))
    return name, rate, draw(bursts) if name == "gcra" else None


def most_of(name: Name, number: int, burst: int | None) -> int:
    """What is promised of any window."""
    promised = {"gcra": number if burst else 2 * number - 1, "fixed": 2 * number, "log": number}
    return promised[name]


@pytest.mark.django_db
@STORES
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), limit=limits())
def test_no_window_has_more(
    kept: Kept, data: st.DataObject, limit: tuple[Name, Rate, int | None]
) -> None:
    name, rate, burst = limit
    algorithm, window = algorithm_of(name, rate, burst), ceil(rate.seconds * SECOND)
    pauses = st.one_of(st.integers(0, 2), st.integers(0, window // 3), st.integers(0, window))
    costs = st.integers(1, algorithm.capacity)
    admitted: Takes = []
    with moved() as store:
        for pause, cost in data.draw(st.lists(st.tuples(pauses, costs), max_size=30)):
            store.now += pause
            if take(kept, store, algorithm, cost):
                admitted.append((store.now, cost))
    assert most_in_a_window(admitted, window) <= most_of(name, rate.number, burst)


@pytest.mark.django_db
@STORES
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(limit=limits(), data=st.data())
def test_who_comes_when_it_is_told(
    kept: Kept, limit: tuple[Name, Rate, int | None], data: st.DataObject
) -> None:
    """Is admitted then, and not a microsecond before; so nobody can have more."""
    name, rate, burst = limit
    algorithm, window = algorithm_of(name, rate, burst), ceil(rate.seconds * SECOND)
    cost = data.draw(st.integers(1, min(3, algorithm.capacity)))
    admitted: Takes = []
    with moved() as store:
        store.now += data.draw(st.integers(0, window))
        while len(admitted) < 2 * rate.number:
            taken = take(kept, store, algorithm, cost)
            if taken:
                admitted.append((store.now, cost))
                continue
            wait = round(taken.retry_after * SECOND)
            store.now += wait - 1
            assert wait == 1 or not take(kept, store, algorithm, cost)
            store.now += 1
            assert take(kept, store, algorithm, cost)
            admitted.append((store.now, cost))
    assert most_in_a_window(admitted, window) <= most_of(name, rate.number, burst)


class Book:
    """What was admitted, as a list that somebody reads from the beginning each time."""

    def __init__(self, name: str, number: int, window: int) -> None:
        self._fixed, self._number, self._window = name == "fixed", number, window
        self._admitted: Takes = []

    def take(self, now: int, cost: int) -> LimitResult:
        allowed = self._used(now) + cost <= self._number
        if allowed:
            self._admitted.append((now, cost))
        wait = 0 if allowed else self._until(now, self._number - cost)
        more = self._until(now, self._used(now) - 1)
        return LimitResult(allowed, self._number - self._used(now), wait / SECOND, more / SECOND)

    def _used(self, now: int) -> int:
        return sum(cost for at, cost in self._admitted if self._counts(at, now))

    def _counts(self, at: int, now: int) -> bool:
        window = self._window
        return at // window == now // window if self._fixed else at > now - window

    def _until(self, now: int, most: int) -> int:
        """How long it is until no more than so many count."""
        if self._fixed:
            return self._window - now % self._window
        ends = sorted(at + self._window for at, _ in self._admitted if self._counts(at, now))
        return next(end for end in ends if self._used(end) <= most) - now


@pytest.mark.django_db
@STORES
@pytest.mark.parametrize("name", ["fixed", "log"])
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), number=st.integers(1, 12))
def test_as_a_book(kept: Kept, name: Name, data: st.DataObject, number: int) -> None:
    """To the microsecond, with all that clients are told."""
    window = 7 * SECOND
    algorithm, book = algorithm_of(name, Rate(number, 7), None), Book(name, number, window)
    pauses = st.one_of(st.integers(0, 2), st.integers(0, window // 3), st.integers(0, 2 * window))
    costs = st.integers(1, number)
    with moved() as store:
        for pause, cost in data.draw(st.lists(st.tuples(pauses, costs), max_size=30)):
            store.now += pause
            assert take(kept, store, algorithm, cost) == book.take(store.now, cost)


@pytest.mark.django_db
@STORES
@pytest.mark.parametrize("name", ["fixed", "log"])
class TestClocksThatAreSetBack:
    """Of the store; what web servers think does not matter."""

    def test_by_an_hour_nobody_waits_for_longer_than_twice(self, kept: Kept, name: Name) -> None:
        algorithm = algorithm_of(name, Rate(10, 60), None)
        with moved() as store:
            assert take(kept, store, algorithm, 10)
            store.now -= 3_600 * SECOND
            for _ in range(2):
                take(kept, store, algorithm, 10)
                store.now += MINUTE
            assert take(kept, store, algorithm, 10)

    def test_by_a_moment_it_counts_on(self, kept: Kept, name: Name) -> None:
        algorithm = algorithm_of(name, Rate(10, 60), None)
        with moved() as store:
            store.now += MINUTE // 2
            assert take(kept, store, algorithm, 8)
            store.now -= SECOND
            assert take(kept, store, algorithm).remaining == 1
            assert not take(kept, store, algorithm, 2)
