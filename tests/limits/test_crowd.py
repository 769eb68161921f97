"""A hundred at once, by the real clocks of the stores: what they admit, no more and no less."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import pytest
from asgiref.sync import async_to_sync

from django_counters.access import Rate
from django_counters.contrib.limits import Limit
from tests.concurrency.crowd import Threads, at_once

pytestmark = pytest.mark.rare

CROWD = 100
# A server has no more connections for each of the tests that run at once.
CONNECTIONS = 16
NUMBER, BURST, WINDOW, SECONDS = 10, 5, 0.75, 1.5
PATIENCE = 30
COMMITS = pytest.mark.django_db(transaction=True)
ALGORITHMS = pytest.mark.parametrize(
    ("options", "most"),
    [
        ({"burst": BURST}, NUMBER),
        ({}, 2 * NUMBER - 1),
        ({"algorithm": "fixed"}, 2 * NUMBER),
        ({"algorithm": "log"}, NUMBER),
    ],
    ids=["burst", "gcra", "fixed", "log"],
)


class Asked(NamedTuple):
    """One call: when it was sent, when it was answered, and whether it was admitted."""

    sent: float
    answered: float
    allowed: bool


Told = list[list[Asked]]


def limit(cache: str | None, **options: Any) -> Limit:
    return Limit(
        secrets.token_hex(8), Rate(NUMBER, WINDOW), cache=cache, timeout=PATIENCE, **options
    )


def asking(one: Limit, crowd: Callable[[Callable[[int], list[Asked]]], Told]) -> list[Asked]:
    """What all of a crowd are told, each of whom asks again and again."""
    ends = time.monotonic() + SECONDS

    def work(_: int) -> list[Asked]:
        told: list[Asked] = []
        while time.monotonic() < ends:
            sent = time.monotonic()
            taken = one.take("all")
            told.append(Asked(sent, time.monotonic(), taken.allowed))
        return told

    return [asked for share in crowd(work) for asked in share]


def surely_in_a_window(admitted: Sequence[Asked]) -> int:
    """The most that were sent and answered within one window, so admitted within it."""
    return max(
        sum(one.sent <= other.sent and other.answered < one.sent + WINDOW for other in admitted)
        for one in admitted
    )


def surely_admitted(one: Limit, told: Sequence[Asked]) -> int:
    """How many have to be admitted, because others were refused after them."""
    if one.algorithm != "gcra":
        return NUMBER
    began = min(asked.answered for asked in told if asked.allowed)
    # Whoever was refused last has found less than one.
    ended = max(asked.sent for asked in told if not asked.allowed)
    back = (NUMBER - (one.burst or 0)) / WINDOW
    # Longer, and it may have been full again meanwhile; then as many were taken since.
    return one.capacity + int(min(ended - began, one.capacity / back) * back) - 1


def check(one: Limit, told: Sequence[Asked], most: int) -> None:
    admitted = [asked for asked in told if asked.allowed]
    assert surely_in_a_window(admitted) <= most
    assert len(admitted) >= surely_admitted(one, told)


@ALGORITHMS
def test_in_redis(options: dict[str, Any], most: int) -> None:
    one = limit("default", **options)
    check(one, asking(one, lambda work: at_once(work, CROWD)), most)


@pytest.mark.many_writers
@COMMITS
@ALGORITHMS
def test_in_the_database(options: dict[str, Any], most: int) -> None:
    one = limit(None, **options)
    check(one, asking(one, Threads(CONNECTIONS).run), most)


@COMMITS
@ALGORITHMS
@pytest.mark.parametrize("cache", ["default", None], ids=["redis", "database"])
def test_a_hundred_tasks(cache: str | None, options: dict[str, Any], most: int) -> None:
    one = Limit(secrets.token_hex(8), "20/day", cache=cache, timeout=PATIENCE, **options)

    async def work() -> list[bool]:
        taken = await asyncio.gather(*(one.atake("all") for _ in range(CROWD)))
        return [each.allowed for each in taken]

    assert async_to_sync(work)().count(True) == one.capacity
