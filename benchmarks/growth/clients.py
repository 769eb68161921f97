"""Increments of one hot counter by ever more clients."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import count

from benchmarks import pgbench
from benchmarks.cases.cached import AGE, client, location, prefix
from benchmarks.cases.ledger import appended, upsert
from benchmarks.cases.statements import HOLD, Way, alone, exact, first, sharded, slotted
from benchmarks.curves import Growth
from benchmarks.growth.measuring import Label, Plan, Sides, measured, rate
from benchmarks.growth.redis_clients import redis_clients
from benchmarks.harness import Side, expect
from benchmarks.inspection import execute, holds
from django_counters.models import Counter
from django_counters.stores.redis.keys import Slots, proposed, slot_of
from django_counters.stores.redis.scripts import ADD

CLIENTS = (1, 4, 16, 64)
STRATEGIES: Sequence[Callable[[], Way]] = (exact, sharded, slotted, appended)
NAMES = tuple(map(Label, ("exact, one row", "sharded", "slotted", "ledger, append")))
UPSERT = Label("bare upsert of one row", reference=True)
WITHOUT = Label("2 ms without a counter", reference=True)
_numbers = count()

Script = Callable[[Way], str]


@contextmanager
def _bare() -> Iterator[Way]:
    """One row of a table that is dropped."""
    way = upsert()
    try:
        yield way
    finally:
        execute(f"DROP TABLE {way.name}")


@contextmanager
def _statements(script: Script, clients: int) -> Iterator[Sides]:
    """Each strategy, then the bare upsert, by pgbench."""
    with _bare() as bare:
        ways = [*(make() for make in STRATEGIES), bare]
        before = [way.stored() for way in ways]

        def verify(counted: Sequence[int]) -> None:
            for way, stored, so_many in zip(ways, before, counted, strict=True):
                expect(way.name, way.stored() - stored, so_many)

        yield Sides([pgbench.side(script(way), clients) for way in ways], verify)


@contextmanager
def in_redis(clients: int) -> Iterator[Sides]:
    """What the library sends for a cached counter, then INCRBY."""
    key, plain = f"pages:crowd{next(_numbers)}", f"{prefix()}:crowd"
    Counter.objects.increment(key)
    slot = slot_of(key)
    keys = Slots("default", prefix()).keys(slot)
    script = ("EVALSHA", ADD.sha, len(keys), *keys, AGE, proposed(slot), 1, key, 1)
    with client() as server, redis_clients(clients, location()) as busy:
        server.set(plain, 0)

        def verify(counted: Sequence[int]) -> None:
            holds(key, 1 + counted[0])
            expect(plain, int(server.get(plain)), counted[1])

        yield Sides([busy(script), busy(("INCRBY", plain, 1))], verify)


@contextmanager
def committing(clients: int) -> Iterator[Sides]:
    """Each call commits."""
    with ExitStack() as stack:
        sql = stack.enter_context(_statements(alone, clients))
        cached = stack.enter_context(in_redis(clients))

        def verify(counted: Sequence[int]) -> None:
            sql.verify(counted[:-2])
            cached.verify(counted[-2:])

        yield Sides([*sql.run, *cached.run], verify)


@contextmanager
def holding(clients: int) -> Iterator[Sides]:
    """Each call is in a transaction that goes on for a while."""
    with _statements(first, clients) as sql:
        without: Side = pgbench.side(f"BEGIN;\nSELECT 1;\n{HOLD}\nCOMMIT;", clients)
        yield Sides([*sql.run, without], lambda counted: sql.verify(counted[:-1]))


COMMITTING = Plan(
    "clients",
    (
        *NAMES,
        UPSERT,
        Label("cached, script of an increment"),
        Label("INCRBY of Redis", reference=True),
    ),
    CLIENTS,
    committing,
    rate,
)
HOLDING = Plan("clients-hold", (*NAMES, UPSERT, WITHOUT), CLIENTS, holding, rate)

GROWTHS: Sequence[Growth] = (
    Growth(
        COMMITTING.name,
        "Increments of one hot counter, each one committed",
        "clients",
        "increments per second",
        durable=True,
        measure=partial(measured, COMMITTING),
        note=(
            "The clients of PostgreSQL are those of pgbench, which sends the statements that the "
            "library sends, so no Python is measured. Each client of Redis is a connection with "
            "one command under way; processes of Python share the connections, one process for "
            "each core at most, and are a part of what limits both lines of Redis. Clients and "
            "servers share the cores of the machine. A commit waits for the disk, Redis does not. "
            "From the second client on, what changes one row waits for the commit of the client "
            "before; the others share their waits for the disk."
        ),
    ),
    Growth(
        HOLDING.name,
        "Increments of one hot counter, first in a transaction that lasts 2 ms more",
        "clients",
        "transactions per second",
        durable=True,
        measure=partial(measured, HOLDING),
        note=(
            "The clients are those of pgbench, which sends the statements that the library sends. "
            "Whoever changes one row holds it until the commit, so one row takes no more "
            "transactions from many clients than from a few. Cached counters have no line: they "
            "are sent after the commit, hold nothing in the transaction, and their limit is the "
            "plot without a transaction."
        ),
    ),
)
