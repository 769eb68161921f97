"""Reading, where ever more rows make up a value, and ever more values are read at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import count

from benchmarks.cases.entries import reading
from benchmarks.curves import Growth
from benchmarks.growth.measuring import Label, Plan, Sides, beside, measured, microseconds
from benchmarks.harness import expect, loop
from benchmarks.inspection import holds
from django_counters.models import Counter, CounterShard

SHARDS = (1, 2, 4, 8, 16, 32, 64)
TAILS = (0, 1, 10, 100, 1000, 10_000, 100_000)
PAGES = (1, 10, 50, 100, 500)
SLICE = 100  # calls of one slice
VALUES = 500  # of one slice of pages, at least
CALLS = 5  # of one slice of pages, at least: the first one after others is slower
ONE_ROW = Label("value of an exact counter", reference=True)
_numbers = count()


@contextmanager
def sharded(shards: int) -> Iterator[Sides]:
    """A counter with so many shards, and one that is one row."""
    mine, theirs = f"spread:grown{next(_numbers)}", f"views:grown{next(_numbers)}"
    CounterShard.objects.bulk_create(
        [CounterShard(key=mine, shard=number, value=number + 1) for number in range(shards)]
    )
    Counter.objects.increment(theirs)

    def verify(_: Sequence[int]) -> None:
        holds(mine, sum(range(shards + 1)))
        expect("shards", CounterShard.objects.filter(key=mine).count(), shards)
        holds(theirs, 1)

    yield Sides(
        [
            loop(lambda: Counter.objects.value(mine), SLICE),
            loop(lambda: Counter.objects.value(theirs), SLICE),
        ],
        verify,
    )


@contextmanager
def behind(tail: int) -> Iterator[Sides]:
    """A counter with so many entries that are not rolled up, and one that is one row."""
    with reading(tail) as pair:
        yield beside(pair)


@contextmanager
def paged(counters: int) -> Iterator[Sides]:
    """So many counters, of the database and of Redis, read at once and one by one."""
    number = next(_numbers)
    rows = {f"views:page{number}:{n}": n + 1 for n in range(counters)}
    cached = {f"pages:page{number}:{n}": n + 1 for n in range(counters)}
    Counter.objects.increment_many({**rows, **cached})

    def exact() -> dict[str, int]:
        return Counter.objects.values_of(rows)

    def from_redis() -> dict[str, int]:
        return Counter.objects.values_of(cached, consistency="cached")

    def one_by_one() -> dict[str, int]:
        return {key: Counter.objects.value(key) for key in rows}

    def verify(_: Sequence[int]) -> None:
        for read in (exact, from_redis, one_by_one):
            expect(read.__name__, sum(read().values()), sum(rows.values()))

    times = max(CALLS, VALUES // counters)
    yield Sides([loop(read, times) for read in (exact, from_redis, one_by_one)], verify)


OF_SHARDS = Plan(
    "read-shards",
    (Label("value of a sharded counter"), ONE_ROW),
    SHARDS,
    sharded,
    microseconds,
    slices=5,
)
OF_TAIL = Plan(
    "read-tail",
    (Label("value of a ledger counter"), ONE_ROW),
    TAILS,
    behind,
    microseconds,
    slices=2,
)
OF_PAGE = Plan(
    "read-page",
    (
        Label("values_of, exact counters"),
        Label("values_of, cached counters, from Redis alone"),
        Label("value, one counter after the other", reference=True),
    ),
    PAGES,
    paged,
    microseconds,
    slices=2,
)

GROWTHS: Sequence[Growth] = (
    Growth(
        OF_SHARDS.name,
        "Reading a sharded counter",
        "shards",
        "µs per value",
        durable=False,
        measure=partial(measured, OF_SHARDS),
        note=(
            "One process, one connection. The greatest size is a counter that was written by as "
            "many clients at once and has not been rolled up since."
        ),
    ),
    Growth(
        OF_TAIL.name,
        "Reading a counter of the ledger",
        "entries since the last rollup",
        "µs per value",
        durable=False,
        measure=partial(measured, OF_TAIL),
        note=(
            "One process, one connection. Both values are exact: that of the ledger is its total "
            "and the sum of the entries that wait, in one statement. How long the tail gets is "
            "decided by how often the rollup runs."
        ),
    ),
    Growth(
        OF_PAGE.name,
        "Reading a page of counters",
        "counters of a page",
        "µs per page",
        durable=False,
        measure=partial(measured, OF_PAGE),
        note="One process, one connection. A page of one counter pays for what many would share.",
    ),
)
