"""The managers themselves: hot counters in transactions, cold ones, and reading.

Sixteen processes run transactions that last two milliseconds. What they are compared with runs in
as many processes, in the same transactions: the library's own statement on a cursor of the driver.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache, partial
from itertools import count
from typing import Any

from django.db import connection, transaction

from benchmarks import pgbench
from benchmarks.cases.statements import exact, last
from benchmarks.harness import (
    Action,
    Pair,
    Work,
    adds_up,
    expect,
    lasting,
    loops,
    remain,
)
from benchmarks.inspection import (
    increment,
    statement_of,
    value,
)
from benchmarks.models import Post
from benchmarks.team import processes
from django_counters.errors import InsufficientCount
from django_counters.models import Counter, CounterShard, SlottedCounter

PROCESSES = 16
THREADS = 16
SLICE = 100  # calls of one slice
HOLD = 0.002
SHARDS = 64
_STOCK = 10**12
LOTS = 8_000
_numbers = count()
# Which lot a process has come to.
_reached: defaultdict[str, int] = defaultdict(int)


def first(action: Action) -> None:
    """A transaction that counts, then works."""
    with transaction.atomic():
        action()
        time.sleep(HOLD)


def collected(key: str) -> None:
    """Counts first as one reads it; the collector makes it the last thing."""
    with Counter.objects.collect():
        Counter.objects.increment(key)
        time.sleep(HOLD)


def like(title: str) -> None:
    """Through the library, for a record that each process loads once."""
    SlottedCounter.objects.increment(_post(title), "likes")


def likes(title: str) -> int:
    """What was counted for a record."""
    return SlottedCounter.objects.value(_post(title), "likes")


@cache
def _post(title: str) -> Any:
    return Post.objects.get(title=title)


def sent(sql: str, params: Any) -> None:
    """One statement on a cursor of the driver: no checks, no wrappers, no log of queries."""
    with connection.connection.cursor() as cursor:
        cursor.execute(sql, params)
        cursor.fetchall()


def nothing() -> None:
    """What a transaction without a counter does."""
    sent("SELECT 1", None)


@contextmanager
def _beside_statement(
    action: Callable[[str], None],
    stored: Callable[[str], int],
    names: tuple[str, str],
    seconds: float,
) -> Iterator[Pair]:
    """Each side has a counter of its own."""
    mine, theirs = names
    statement = statement_of(partial(action, theirs))
    verify = adds_up(partial(stored, mine), partial(stored, theirs))
    ways = partial(action, mine), partial(sent, *statement)
    with processes(PROCESSES) as team:
        subject, reference = (team.side(partial(first, way), seconds) for way in ways)
        yield Pair(subject, reference, verify)


@contextmanager
def named(namespace: str, seconds: float) -> Iterator[Pair]:
    """Named counters, by their namespace."""
    number = next(_numbers)
    names = f"{namespace}:process{number}", f"{namespace}:driver{number}"
    with _beside_statement(increment, Counter.objects.value, names, seconds) as pair:
        yield pair


@contextmanager
def slotted(seconds: float) -> Iterator[Pair]:
    """Fields of two records."""
    number = next(_numbers)
    names = f"liked by all {number}", f"liked by the driver {number}"
    for title in names:
        Post.objects.create(title=title)
        likes(title)  # makes the type of the record, once
    with _beside_statement(like, likes, names, seconds) as pair:
        yield pair


@contextmanager
def collecting(seconds: float) -> Iterator[Pair]:
    """The collector, and pgbench: as many clients, whose transactions work, then count one row."""
    mine, theirs = f"views:collected{next(_numbers)}", exact()
    with processes(PROCESSES) as team:
        yield Pair(
            team.side(partial(collected, mine), seconds),
            pgbench.side(last(theirs), PROCESSES, seconds),
            adds_up(value(mine), theirs.stored),
        )


@contextmanager
def _one_row(seconds: float) -> Iterator[Pair]:
    """The one row that all others wait for, and transactions that do something else."""
    key = f"views:first{next(_numbers)}"
    with processes(PROCESSES) as team:
        yield Pair(
            team.side(partial(first, partial(increment, key)), seconds),
            team.side(partial(first, nothing), seconds),
            lambda counted, _: expect(key, Counter.objects.value(key), counted),
        )


def _sold(key: str) -> int:
    return _STOCK - Counter.objects.value(key)


@contextmanager
def _selling(seconds: float) -> Iterator[Pair]:
    """What sells from rows, and from one row."""
    number = next(_numbers)
    keys = f"sold:{number}", f"stock:sold{number}"
    for key in keys:
        Counter.objects.increment(key, _STOCK)
        Counter.objects.decrement(key)
    with processes(PROCESSES) as team:
        ways = (partial(first, partial(Counter.objects.decrement, key)) for key in keys)
        subject, reference = (team.side(way, seconds) for way in ways)
        yield Pair(subject, reference, adds_up(*(partial(_sold, key) for key in keys)))


def _lots(names: str) -> list[str]:
    return [f"{names}-{number}" for number in range(LOTS)]


def sell(names: str) -> None:
    """One unit, of the first lot that has one."""
    while True:
        try:
            return first(partial(Counter.objects.decrement, f"{names}-{_reached[names]}"))
        except InsufficientCount:
            _reached[names] += 1


def _sold_of(names: str, units: int) -> int:
    return sum(units - value for value in Counter.objects.values_of(_lots(names)).values())


@contextmanager
def _selling_out(units: int, seconds: float) -> Iterator[Pair]:
    """Stocks of so many units one after another, each to its last one."""
    number = next(_numbers)
    names = f"sold:lot{number}", f"stock:lot{number}"
    Counter.objects.bulk_create(
        [Counter(key=key, value=units) for of_side in names for key in _lots(of_side)]
    )
    with processes(PROCESSES) as team:
        subject, reference = (team.side(partial(sell, of_side), seconds) for of_side in names)
        yield Pair(subject, reference, adds_up(*(partial(_sold_of, one, units) for one in names)))


@contextmanager
def _cold_field() -> Iterator[Pair]:
    post: Any = Post.objects.create(title="cold")
    slots = SlottedCounter.objects.filter(record_id=str(post.pk), name="likes")
    views = Post.objects.filter(pk=post.pk).values_list("views", flat=True)
    stored = partial(SlottedCounter.objects.value, post, "likes")
    adds = adds_up(stored, lambda: int(views.get()))

    def like() -> None:
        post.likes.increment()

    def view() -> None:
        post.views.increment()

    def verify(subject: int, reference: int) -> None:
        adds(subject, reference)
        expect("the rows of a cold counter", slots.count(), 1)

    yield loops(like, view, verify)


@contextmanager
def reading(shards: int) -> Iterator[Pair]:
    """A counter with so many shards, and one that is one row."""
    mine, theirs = f"spread:read{shards}", f"views:read{shards}-shards"
    CounterShard.objects.bulk_create(
        [CounterShard(key=mine, shard=number, value=number + 1) for number in range(shards)]
    )
    increment(theirs)
    rows = CounterShard.objects.filter(key=mine).count
    known = (value(mine), sum(range(shards + 1))), (value(theirs), 1), (rows, shards)
    yield loops(value(mine), value(theirs), remain(*known))


CASES: Mapping[str, Work] = {
    "sharded": lasting(partial(named, "spread")),
    "slotted": lasting(slotted),
    "sold": lasting(_selling),
    "sold-out": lasting(partial(_selling_out, 16)),
    "sold-out-4": lasting(partial(_selling_out, 4)),
    "collector": lasting(collecting),
    "first": lasting(_one_row),
    "cold-field": Work(_cold_field),
    "read": Work(partial(reading, SHARDS)),
}
