"""The managers themselves: hot counters in transactions, cold ones, combining, and reading.

Sixteen processes run transactions that last two milliseconds, with a counter and without.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import cache, partial
from typing import Any

from django.db import connection, transaction

from benchmarks.harness import Case, Pair, at_least, at_most, expect, loop
from benchmarks.inspection import holds
from benchmarks.models import Post
from benchmarks.threads import threads
from benchmarks.writers import writers
from django_counters.models import Counter, CounterShard, SlottedCounter

PROCESSES = 16
THREADS = 16
SECONDS = 0.5  # of one slice
BRIEF = 0.2  # the same where time is short
SLICE = 100  # calls of one slice
HOLD = 0.002
SHARDS = 64
HOT_SHARDED = "spread:process"
HOT_FIRST = "views:first"
HOT_COLLECTED = "views:collected"
HOT_POST = "liked by all"
HOT_COMBINED = "combined:threads"
HOT_SINGLE = "views:threads"


def no_counter() -> None:
    """The transaction that all others are compared with: it does something else."""
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1")
            cursor.fetchone()
        time.sleep(HOLD)


def count_sharded() -> None:
    """Counts first, in a shard that nobody holds."""
    with transaction.atomic():
        Counter.objects.increment(HOT_SHARDED)
        time.sleep(HOLD)


def count_slotted() -> None:
    """Counts first, in a slot that nobody holds."""
    with transaction.atomic():
        SlottedCounter.objects.increment(_post(), "likes")
        time.sleep(HOLD)


def count_first() -> None:
    """Counts first, in the one row, which all others wait for."""
    with transaction.atomic():
        Counter.objects.increment(HOT_FIRST)
        time.sleep(HOLD)


def count_collected() -> None:
    """Counts first as one reads it; the collector makes it the last thing."""
    with Counter.objects.collect():
        Counter.objects.increment(HOT_COLLECTED)
        time.sleep(HOLD)


@cache
def _post() -> Post:
    """The record that all processes count for; each loads it once."""
    return Post.objects.get(title=HOT_POST)


def _value_of_post() -> int:
    post = Post.objects.get(title=HOT_POST)
    return SlottedCounter.objects.value(post, "likes")


def _nothing() -> None:
    """Nothing has to be there before the first increment."""


def _make_post() -> None:
    post = Post.objects.create(title=HOT_POST)
    SlottedCounter.objects.value(post, "likes")  # makes the type of the record, once


@contextmanager
def _transactions(
    action: Callable[[], None],
    stored: Callable[[], int],
    make: Callable[[], None],
    seconds: float,
) -> Iterator[Pair]:
    make()
    with writers(PROCESSES, str(connection.settings_dict["NAME"])) as team:
        yield Pair(
            team.side(action, seconds),
            team.side(no_counter, seconds),
            lambda counted, _: expect(action.__name__, stored(), counted),
        )


def transactions(
    action: Callable[[], None],
    stored: Callable[[], int],
    make: Callable[[], None] = _nothing,
    seconds: float = SECONDS,
) -> Callable[[], AbstractContextManager[Pair]]:
    """Transactions that count beside such that do not; a slice takes so many seconds."""
    return partial(_transactions, action, stored, make, seconds)


def _value(key: str) -> Callable[[], int]:
    return lambda: Counter.objects.value(key)


@contextmanager
def _cold() -> Iterator[Pair]:
    mine, theirs = "spread:cold", "views:cold"

    def verify(subject: int, reference: int) -> None:
        holds(mine, subject)
        holds(theirs, reference)
        expect("shards", CounterShard.objects.filter(key=mine).count(), 1)

    yield Pair(
        loop(lambda: Counter.objects.increment(mine), SLICE),
        loop(lambda: Counter.objects.increment(theirs), SLICE),
        verify,
    )


@contextmanager
def _cold_field() -> Iterator[Pair]:
    post: Any = Post.objects.create(title="cold")

    def verify(subject: int, reference: int) -> None:
        post.refresh_from_db()
        expect("likes", SlottedCounter.objects.value(post, "likes"), subject)
        expect("views", post.views, reference)
        slots = SlottedCounter.objects.filter(record_id=str(post.pk), name="likes")
        expect("slots", slots.count(), 1)

    def like() -> object:
        return post.likes.increment()

    def view() -> object:
        return post.views.increment()

    yield Pair(loop(like, SLICE), loop(view, SLICE), verify)


@contextmanager
def _combining(seconds: float) -> Iterator[Pair]:
    def verify(subject: int, reference: int) -> None:
        holds(HOT_COMBINED, subject)
        holds(HOT_SINGLE, reference)

    with threads(THREADS) as team:
        yield Pair(
            team.side(lambda: Counter.objects.increment(HOT_COMBINED), seconds),
            team.side(lambda: Counter.objects.increment(HOT_SINGLE), seconds),
            verify,
        )


@contextmanager
def _combining_alone() -> Iterator[Pair]:
    mine, theirs = "combined:alone", "views:alone"

    def verify(subject: int, reference: int) -> None:
        holds(mine, subject)
        holds(theirs, reference)

    yield Pair(
        loop(lambda: Counter.objects.increment(mine), SLICE),
        loop(lambda: Counter.objects.increment(theirs), SLICE),
        verify,
    )


@contextmanager
def _reading() -> Iterator[Pair]:
    mine, theirs = "spread:read", "views:read"
    CounterShard.objects.bulk_create(
        [CounterShard(key=mine, shard=number, value=number) for number in range(SHARDS)]
    )
    Counter.objects.increment(theirs)

    def verify(*_: int) -> None:
        holds(mine, sum(range(SHARDS)))
        expect("shards", CounterShard.objects.filter(key=mine).count(), SHARDS)
        holds(theirs, 1)

    yield Pair(
        loop(lambda: Counter.objects.value(mine), SLICE),
        loop(lambda: Counter.objects.value(theirs), SLICE),
        verify,
    )


WITHOUT = "2 ms without a counter"

CASES: Sequence[Case] = (
    Case(
        "sharded",
        f"sharded, {PROCESSES} processes, first in 2 ms",
        WITHOUT,
        at_least(0.6),
        transactions(count_sharded, _value(HOT_SHARDED)),
        slices=2,
        less=transactions(count_sharded, _value(HOT_SHARDED), seconds=BRIEF),
    ),
    Case(
        "slotted",
        f"slotted, {PROCESSES} processes, first in 2 ms",
        WITHOUT,
        at_least(0.6),
        transactions(count_slotted, _value_of_post, _make_post),
        slices=2,
        less=transactions(count_slotted, _value_of_post, _make_post, BRIEF),
    ),
    Case(
        "collector",
        f"exact, {PROCESSES} processes, 2 ms in a collector",
        WITHOUT,
        at_least(0.6),
        transactions(count_collected, _value(HOT_COLLECTED)),
        slices=2,
        less=transactions(count_collected, _value(HOT_COLLECTED), seconds=BRIEF),
    ),
    Case(
        "first",
        f"exact, {PROCESSES} processes, first in 2 ms",
        WITHOUT,
        None,
        transactions(count_first, _value(HOT_FIRST)),
        slices=2,
        less=transactions(count_first, _value(HOT_FIRST), seconds=BRIEF),
    ),
    Case("cold", "increment of a cold sharded counter", "exact", at_least(0.85), _cold),
    Case("cold-field", "increment of a cold slotted field", "exact", at_least(0.85), _cold_field),
    Case(
        "combining",
        f"combined, {THREADS} threads",
        "the same, not combined",
        at_least(5),
        partial(_combining, SECONDS),
        slices=2,
        less=partial(_combining, BRIEF),
    ),
    Case(
        "combining-alone",
        "combined, one thread",
        "the same, not combined",
        at_least(0.95),
        _combining_alone,
    ),
    Case("read", f"value of {SHARDS} shards", "value of one row", at_most(1.5), _reading),
)
