"""What a transaction that stays open does to counters: old versions of their rows are kept.

Exact counters are changed again and again while a snapshot is open on another connection, and
without one. Then the snapshot is closed, VACUUM runs, and it goes on.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import count

import psycopg
from django.db import connection

from benchmarks import pgbench
from benchmarks.curves import Growth, Line, Progress
from benchmarks.growth.measuring import FEW_ROUNDS, Label, emptied, lines, point
from benchmarks.harness import MIN_ROUNDS, Effort, expect
from benchmarks.inspection import execute, holds
from django_counters.models import Counter

TOTALS = Counter._meta.db_table
PAGE = 1000  # counters of one statement
MIB = 1 << 20
_numbers = count()
Run = Sequence[tuple[float, ...]]  # what was seen after each step


@dataclass(frozen=True)
class Load:
    """What is done in a run.

    Attributes:
        counters: how many counters there are.
        step: how many changes there are from one point to the next.
        steps: how many steps the snapshot stays open.
        after: how many steps there are after it.
    """

    counters: int
    step: int
    steps: int
    after: int = 2

    def less(self) -> Load:
        """The same, where time is short."""
        return Load(self.counters, self.step, max(1, self.steps // 3), self.after)


MILLION = Load(counters=20_000, step=100_000, steps=10)
ONE = Load(counters=1, step=2000, steps=10)


@contextmanager
def snapshot(held: bool) -> Iterator[Callable[[], None]]:
    """Hold a snapshot open on another connection, if so; give what closes it."""
    params = dict(connection.get_connection_params())
    known = {name: params[name] for name in params if name not in pgbench.DRIVERS_OWN}
    with psycopg.connect(**known) as other:
        if held:
            other.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            other.execute(f"SELECT 1 FROM {TOTALS} LIMIT 1")
        yield other.rollback


def in_steps(load: Load, held: bool, do: Callable[[], float]) -> Iterator[float]:
    """Take the steps with a snapshot and those after it; what each of them gives."""
    with snapshot(held) as close:
        for _ in range(load.steps):
            yield do()
        close()
        execute(f"VACUUM {TOTALS}")
        for _ in range(load.after):
            yield do()


def sizes(load: Load, held: bool) -> Run:
    """The MiB of the table and of its indexes, after each step."""
    execute(f"TRUNCATE {TOTALS}")
    keys = [f"views:bloated{number}" for number in range(load.counters)]
    pages = [dict.fromkeys(keys[at : at + PAGE], 1) for at in range(0, load.counters, PAGE)]
    times = load.step // load.counters

    def do() -> float:
        for page in pages * times:
            Counter.objects.increment_many(page)
        return 0.0

    do()  # the rows are made, and there is no old version of any
    execute(f"VACUUM {TOTALS}")
    found = [_mib() for _ in in_steps(load, held, do)]
    stored = execute(f"SELECT SUM(value)::bigint FROM {TOTALS}")
    expect("the totals", stored, (1 + len(found)) * load.step)
    return found


def _mib() -> tuple[float, ...]:
    asked = (f"pg_table_size('{TOTALS}')", f"pg_indexes_size('{TOTALS}')")
    return tuple(execute(f"SELECT {size}") / MIB for size in asked)


@dataclass(frozen=True)
class Hot:
    """One hot counter: how it is changed, and what compares it with what was counted."""

    change: Callable[[], object]
    verify: Callable[[int], None]


def exact() -> Hot:
    """Through the library."""
    key = f"views:bloated{next(_numbers)}"
    return Hot(lambda: Counter.objects.increment(key), partial(holds, key))


def bare() -> Hot:
    """The same row in the same table, by the least that adds to it."""
    key = f"views:bloated{next(_numbers)}"
    sql = (
        f"INSERT INTO {TOTALS} AS t (key, value, updated_at) VALUES (%s, 1, now()) "
        "ON CONFLICT (key) DO UPDATE SET value = t.value + 1, updated_at = now() RETURNING value"
    )

    def change() -> None:
        with connection.cursor() as cursor:
            cursor.execute(sql, [key])
            cursor.fetchone()

    return Hot(change, partial(holds, key))


def rates(load: Load, make: Callable[[], Hot], held: bool) -> Run:
    """The changes of one counter per second, in each step."""
    hot = make()
    hot.change()
    execute(f"VACUUM {TOTALS}")

    def do() -> float:
        started = time.perf_counter()
        for _ in range(load.step):
            hot.change()
        return load.step / (time.perf_counter() - started)

    found = [(rate,) for rate in in_steps(load, held, do)]
    hot.verify(1 + len(found) * load.step)
    return found


def drawn(load: Load, runs: Sequence[Run], labels: Sequence[Label], apart: bool) -> list[Line]:
    """The lines of some runs; ``apart``: what came after the snapshot is a line of its own."""
    points = [
        [
            point(load.step * (step + 1), [run[step][number] for run in runs])
            for step in range(load.steps + load.after)
        ]
        for number in range(len(labels))
    ]
    if not apart:
        return list(lines(labels, points))
    closed = [Label(f"{label.text}, closed, after VACUUM", label.reference) for label in labels]
    opened = [Label(f"{label.text}, snapshot open", label.reference) for label in labels]
    before = [part[: load.steps] for part in points]
    later = [part[load.steps :] for part in points]
    return [*lines(opened, before), *lines(closed, later)]


def taken_in_turn(
    name: str, ways: Sequence[Callable[[], Run]], rounds: int, progress: Progress
) -> list[list[Run]]:
    """The runs of each way."""
    runs: list[list[Run]] = [[] for _ in ways]
    for number in range(rounds):
        turns = list(zip(runs, ways, strict=True))
        for way, (so_far, run) in enumerate(turns if number % 2 else reversed(turns)):
            progress(f"{name}: round {number + 1} of {rounds}, run {way + 1} of {len(ways)}")
            so_far.append(run())
    return runs


def bloat(load: Load, effort: Effort, progress: Progress) -> tuple[Line, ...]:
    """The sizes with a snapshot and without.

    Raises:
        WrongSum: the database does not hold what was counted.
    """
    if effort.share < 1:
        load = load.less()
    with emptied():
        ways = [partial(sizes, load, held) for held in (True, False)]
        rounds = min(effort.rounds, FEW_ROUNDS)
        opened, without = taken_in_turn("bloat", ways, rounds, progress)
    parts = [Label("table"), Label("index")]
    plain = [Label(f"{part.text}, no snapshot", reference=True) for part in parts]
    return (*drawn(load, opened, parts, True), *drawn(load, without, plain, False))


def slowness(load: Load, effort: Effort, progress: Progress) -> tuple[Line, ...]:
    """The rates with a snapshot and without, and those of a bare upsert with one.

    Raises:
        WrongSum: the database does not hold what was counted.
    """
    if effort.share < 1:
        load = load.less()
    with emptied():
        ways = [partial(rates, load, make, held) for make, held in _HOT]
        rounds = min(effort.rounds, MIN_ROUNDS)
        runs = taken_in_turn("bloat-rate", ways, rounds, progress)
    upsert = Label("bare upsert", reference=True)
    return (
        *drawn(load, runs[0], [Label("increment")], True),
        *drawn(load, runs[1], [Label("increment, no snapshot", reference=True)], False),
        *drawn(load, runs[2], [upsert], True),
    )


_HOT = ((exact, True), (exact, False), (bare, True))

GROWTHS: Sequence[Growth] = (
    Growth(
        "bloat",
        f"Size of {MILLION.counters:,} exact counters while a snapshot is open",
        "increments",
        "MiB",
        durable=False,
        measure=partial(bloat, MILLION),
        note=(
            "One process changes the counters in turn, a page in each statement. PostgreSQL can "
            "remove no version of a row that is younger than the oldest snapshot of the database, "
            "so as long as that is open each increment takes room. Without it the room of the old "
            "versions is used again. After the snapshot is closed, a VACUUM makes the room "
            "usable, and nothing grows on; it gives back what is at the end of the table alone. "
            f"{FEW_ROUNDS} rounds."
        ),
        logarithmic=False,
    ),
    Growth(
        "bloat-rate",
        "Increments of one exact counter while a snapshot is open",
        "increments",
        "increments per second",
        durable=False,
        measure=partial(slowness, ONE),
        note=(
            "One process, one increment in each statement. Whoever looks for the row passes all "
            "its versions in other pages that nothing can remove, so each increment makes the "
            "next one slower; the bare upsert of the same row shows that this is so for any "
            "statement. Each point is the rate since the point before."
        ),
        logarithmic=False,
    ),
)
