"""What there is: one slot of a Redis, the database, flushers, a reader, and what a ghost knows.

Everything is a tuple of numbers, so that states compare and hash fast. ``amounts.py`` says what an
amount is. Sets of generations are bits: ``batches >> number & 1``.
"""

from __future__ import annotations

from typing import NamedTuple

from tests.protocol.amounts import present

# There is one reader, so it is enough to tell a lease from none: whoever holds one, holds this.
LEASE = 1


class Generation(NamedTuple):
    """A hash of increments, open (P) or sealed (B).

    Attributes:
        number: Its id, which it has from its first moment.
        parent: The generation that was sealed when it was made; 0: it was born from nothing. Only
            a fence asks for it.
        amounts: The increments in it, with those that have a token.
        tokens: The set of those that left an entry with their token, which has their cells.
        cells: The increments in its cells.
        members: The set of those whose actors are in it; that of a token is in its entry.
        foreign: Whether it belongs to a history of Redis that is over.
    """

    number: int
    parent: int = 0
    amounts: int = 0
    tokens: int = 0
    cells: int = 0
    members: int = 0
    foreign: bool = False


class Base(NamedTuple):
    """Totals that Redis knows.

    Attributes:
        lease: Who holds it may fill in totals; 0: nobody may.
        known: The counters that have a total: 7 in the digits of their increments.
        total: The totals.
        foreign: Whether they were asked for in a history of Redis that is over.
        turn: Whether somebody asks, and others leave it to him.
    """

    lease: int = 0
    known: int = 0
    total: int = 0
    foreign: bool = False
    turn: bool = False


class Redis(NamedTuple):
    """What one Redis keeps of one slot, in memory or on its disk (or its replica).

    Attributes:
        open: P.
        marks: The places that P says are occupied, as bits. They go where P goes.
        ring: B0, B1, ...
        base: BASE.
        tokens: The token keys: a set of increments.
        discarding: The counter whose amounts were taken away, while its cells still wait. No
            process knows it.
    """

    open: Generation | None
    marks: int
    ring: tuple[Generation | None, ...]
    base: Base | None = None
    tokens: int = 0
    discarding: int = 0

    @property
    def amounts(self) -> int:
        """What is in all generations together, whether P names their places or not."""
        return sum(kept.amounts for kept in (self.open, *self.ring) if kept is not None)

    @property
    def held(self) -> int:
        """The set of increments that are in a generation."""
        return present(self.amounts)


class Database(NamedTuple):
    """What is committed.

    Attributes:
        total: The totals.
        ledger: The entries.
        quarantined: The amounts in incidents.
        cells: The increments in the cells.
        members: The set of the increments whose actors are in the sets.
        deleted: The counter whose record was deleted: 7 in the digits of its increments.
        batches: The generations that were applied.
        seen: P at the last flush; 0: the slot was never flushed.
        age: How many crashes ago Redis was at the last flush; -1: the slot was never flushed.
    """

    total: int = 0
    ledger: int = 0
    quarantined: int = 0
    cells: int = 0
    members: int = 0
    deleted: int = 0
    batches: int = 0
    seen: int = 0
    age: int = -1

    @property
    def counted(self) -> int:
        """What the one statement of a read adds up."""
        return self.total + self.ledger


class Chart(NamedTuple):
    """What a cut told of the family of generations.

    Attributes:
        generations: Number and parent of each, P last.
        foreign: Whether one of them was of a history that was over.
        age: How many crashes ago it was told.
    """

    generations: tuple[tuple[int, int], ...] = ()
    foreign: bool = False
    age: int = 0


class Ack(NamedTuple):
    """What a flusher has to acknowledge: a generation, its place, and the counters to forget."""

    number: int
    place: int
    forget: int


class Flusher(NamedTuple):
    """A flusher, and what it holds in its memory.

    Attributes:
        at: ``idle``, ``recalled``, ``reading``, ``landed``, (in a mutant: ``early``).
        seen: What the database remembered before the cut.
        due: The losses that this flush has to notice, as a ghost knows.
        might: The losses that it can have noticed.
        chart: What the cut told.
        todo: Place and number of what it still has to read.
        page: The tokens, the cells and the members of a generation whose amounts it has not read
            yet; or none.
        outdated: Whether the history has changed since its cut. Only who reads pages asks.
        copies: What it has read.
        missed: What was no longer there when it came to read it, as bits.
        acks: What it still has to acknowledge.
        members: In a mutant: who still has to be put into the sets.
    """

    at: str = "idle"
    seen: int = 0
    due: int = 0
    might: int = 0
    chart: Chart = Chart()
    todo: tuple[tuple[int, int], ...] = ()
    page: tuple[int, ...] = ()
    outdated: bool = False
    copies: tuple[tuple[int, Generation], ...] = ()
    missed: int = 0
    acks: tuple[Ack, ...] = ()
    members: int = 0


class Reader(NamedTuple):
    """Somebody who reads all counters exactly, and then fills in what he missed.

    Attributes:
        at: ``idle``, ``looked``, ``filling``, (in a mutant: ``asked``).
        required: What the value has to have: acknowledged before he began.
        told: The generations that Redis told him, with their amounts.
        missing: The counters that had no total in Redis, or soon too old a one.
        lease: With which he may fill them in.
        total: What he is going to fill in. In a mutant: what he asked the database first.
        batches: In a mutant: the generations that were applied then.
    """

    at: str = "idle"
    required: int = 0
    told: tuple[tuple[int, int], ...] = ()
    missing: int = 0
    lease: int = 0
    total: int = 0
    batches: int = 0


class World(NamedTuple):
    """One state. All after ``reader`` is known to no process: it is there to count and to check.

    Attributes:
        saved: What Redis comes back with when it crashes next.
        begun: How many increments were begun, in their order.
        acked: The increments that were acknowledged to their callers.
        lost: The increments that Redis has lost, and that the database did not have then.
        unreported: The same, until an incident.
        resent: Increments with a token of which there was a copy when another was made.
        owing: Changes made in the database of which Redis was not told yet.
        unacked: Generations that were applied and not acknowledged yet, as bits. Only a cache asks.
        minted: The next number of a generation.
        fault: What a step did that it must not do.
        spent: What has happened of that which may happen a few times (see ``spending``).
    """

    redis: Redis
    saved: Redis | None = None
    database: Database = Database()
    flushers: tuple[Flusher, ...] = ()
    reader: Reader = Reader()
    begun: int = 0
    acked: int = 0
    lost: int = 0
    unreported: int = 0
    resent: int = 0
    owing: int = 0
    unacked: int = 0
    minted: int = 1
    fault: str = ""
    spent: int = 0


Step = tuple[str, World]
