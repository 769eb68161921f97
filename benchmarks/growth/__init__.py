"""How costs grow: each growth is a plot. Django has to be set up."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial

from benchmarks import pgbench
from benchmarks.cases import entries, flush, spread
from benchmarks.cases.ledger import appended, upsert
from benchmarks.cases.statements import alone, exact, sharded, slotted
from benchmarks.growth.measuring import Growth, Label, Sides, beside, microseconds, rate
from benchmarks.harness import expect
from benchmarks.inspection import execute

ONE_ROW = Label("value of an exact counter", reference=True)


@contextmanager
def committing(clients: int) -> Iterator[Sides]:
    """Each way of counting, then the bare upsert, by so many clients of pgbench."""
    ways = [make() for make in (exact, sharded, slotted, appended, upsert)]
    before = [way.stored() for way in ways]

    def verify(counted: Sequence[int]) -> None:
        for way, so_far, more in zip(ways, before, counted, strict=True):
            expect(way.name, way.stored(), so_far + more)

    yield Sides([pgbench.side(alone(way), clients) for way in ways], verify)
    execute(f"DROP TABLE {ways[-1].name}")


GROWTHS: Sequence[Growth] = (
    Growth(
        "clients",
        "Increments of one hot counter, each one committed",
        "clients",
        "increments per second",
        durable=True,
        labels=(
            *map(Label, ("exact, one row", "sharded", "slotted", "ledger, append")),
            Label("bare upsert of one row", reference=True),
        ),
        sizes=(1, 4, 16, 64),
        prepare=committing,
        figure=rate,
        note=(
            "The clients are those of pgbench, which sends the statements that the library sends, "
            "so no Python is measured. Clients and server share the cores of the machine. A commit "
            "waits for the disk. From the second client on, what changes one row waits for the "
            "commit of the client before; the others share their waits for the disk."
        ),
    ),
    Growth(
        "read-shards",
        "Reading a sharded counter",
        "shards",
        "µs per value",
        durable=False,
        labels=(Label("value of a sharded counter"), ONE_ROW),
        sizes=(1, 2, 4, 8, 16, 32, 64),
        prepare=partial(beside, spread.reading),
        figure=microseconds,
        slices=5,
        note=(
            "One process, one connection. The greatest size is a counter that was written by as "
            "many clients at once and has not been rolled up since."
        ),
    ),
    Growth(
        "read-tail",
        "Reading a counter of the ledger",
        "entries since the last rollup",
        "µs per value",
        durable=False,
        labels=(Label("value of a ledger counter"), ONE_ROW),
        sizes=(0, 1, 10, 100, 1000, 10_000, 100_000),
        prepare=partial(beside, entries.reading),
        figure=microseconds,
        slices=2,
        note=(
            "One process, one connection. Both values are exact: that of the ledger is its total "
            "and the sum of the entries that wait, in one statement. How long the tail gets is "
            "decided by how often the rollup runs."
        ),
    ),
    Growth(
        "flush-size",
        "A flush of cached counters",
        "counters that have changed",
        "µs per counter",
        durable=True,
        labels=(Label("flush"), Label("bare upsert of as many rows", reference=True)),
        sizes=(1000, 10_000, 100_000),
        prepare=partial(beside, flush.beside_upsert),
        figure=microseconds,
        note=(
            "Each counter has changed once since the flush before. The reference is the statement "
            "of the flush with rows that are there already, in transactions of the same size. A "
            "flush looks at all slots of Redis, whatever is in them, and commits at least once: "
            "with few counters this is most of its time."
        ),
    ),
)
