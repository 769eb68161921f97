"""The promises of stores."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from enum import IntEnum, StrEnum
from typing import Any, NamedTuple, Protocol
from uuid import UUID

from django_counters.errors import CounterError
from django_counters.measure import Condition, ConditionResult
from django_counters.projector import GuardsStore
from django_counters.types import Amounts, Cell, Delta, Sums


class PartitionBusy(Exception):
    """A transaction holds what is needed; to be tried again later."""


class Outcome(IntEnum):
    """What became of an entry that was to be appended."""

    APPENDED = 0
    REPLAYED = 1
    CONFLICT = 2
    EXPIRED = 3
    FENCED = 4
    CLAIMED = 5
    OVERFLOW = 6


class LandingRefusal(StrEnum):
    """Why an amount could not be landed."""

    OVERFLOW = "overflow"
    MISSING = "missing"
    STRANGE = "strange"


class Tokened(NamedTuple):
    """An increment that has a token, and the cells that it adds as much to."""

    counter: str
    by: int
    cells: tuple[Cell, ...] = ()


class Move(NamedTuple):
    """A part of a source goes from one position to another, in a timeline: see `CounterPosition`.

    ``before`` is empty for the first page of a part.
    """

    source: str
    part: str
    before: str
    after: str
    timeline: str = ""

    def __str__(self) -> str:
        return f"{self.source} [{self.part}] {self.before or 'the beginning'} to {self.after}"


class Parcel(NamedTuple):
    """Increments that are applied once, wherever they come from.

    It is known by an id, or by the positions that move when it lands.

    A counter is named by its key, or by ``app.Model.field`` and the text of a primary key, with a
    space between them.

    Attributes:
        id: the 32 lower-case hexadecimal digits of a UUIDv7. Its time is that of the parcel. Empty
            where positions move.
        source: where it comes from, in 255 characters at most.
        sums: by how much each counter changes.
        slot: the part of the source that it comes from.
        tokens: increments that have a UUIDv7 each; they are part of the sums, too.
        cells: by how much cells change, by counter and cell; without those of ``tokens``.
        strange: unreadable entries that were found beside them.
        more: what else lands for a kind with members, by counter and cell; see `Kind.lands`.
        moves: the positions that it is between, of parts of sources that are landed in order.
    """

    id: str
    source: str
    sums: Mapping[str, int]
    slot: int = 0
    tokens: Mapping[str, Tokened] = {}
    cells: Sums[str] = {}
    strange: Mapping[str, str] = {}
    more: Mapping[tuple[str, Cell], Any] = {}
    moves: Sequence[Move] = ()

    @property
    def name(self) -> str:
        """Its name in incidents, and in its result."""
        return self.id or "; ".join(map(str, self.moves))


class SlotState(NamedTuple):
    """The last seen state of a slot: the generation that was open, and the history it was in."""

    generation: str
    timeline: str


class UnreadPage(NamedTuple):
    """A page to look through for fields of one counter."""

    generation: str
    cursor: str
    history: str


class PendingField(NamedTuple):
    """A field that waits in Redis, and its text."""

    generation: str
    field: str
    text: str


class PendingParts(NamedTuple):
    """What waits for one counter, on one page or on all of them.

    Attributes:
        amounts: generation, cell (None: the counter itself) and amount of each.
        sets: the fields that have actors.
        rest: the pages that are left.
        seen: generation and name of each field on this page and on those before it.
    """

    amounts: Sequence[tuple[str, Cell | None, int]]
    sets: Sequence[PendingField]
    rest: Sequence[UnreadPage] = ()
    seen: frozenset[tuple[str, str]] = frozenset()


class ReadsStore(Protocol):
    """Reads total and pending of one moment."""

    capacity: tuple[int, int]
    inserts: bool

    def read(self, keys: Iterable[Hashable]) -> Mapping[Hashable, Amounts]:
        """Return those that exist among ``keys``, all of one moment."""

    def read_one(self, key: Hashable) -> Amounts | None:
        """Return one; None if there is neither a total nor anything pending."""

    def label(self, key: Hashable) -> str:
        """What people call the counter of a key."""

    def all_or_nothing(self, *, own: bool = True) -> AbstractContextManager[None]:
        """A block that leaves nothing behind when it ends with an error.

        ``own``: all that happens within is ours, and so are its errors.
        """


class NoRoom(Exception):
    """A change would count too much in a period. A statement was refused for it.

    Attributes:
        sums: the counts that the periods of its quotas would have.
    """

    def __init__(self, sums: Sequence[int]) -> None:
        super().__init__()
        self.sums = sums


class TotalsStore(ReadsStore, GuardsStore, Protocol):
    """Keeps one total per key; every verb is one atomic step."""

    def add(self, delta: Delta) -> int | None:
        """Add to one total and return it.

        None, and nothing changed, where its bounds refuse or increments wait elsewhere.
        """

    def add_on(self, delta: Delta, condition: Condition) -> ConditionResult | None:
        """Add one, or take one away, on a condition; None, and nothing changed, as `add`."""

    def add_many(self, deltas: Sequence[Delta]) -> Mapping[Hashable, int]:
        """Add to many totals in the order of their keys; their values. Asks no bounds."""

    def add_cells(self, deltas: Sequence[Delta]) -> None:
        """Add to the cells of changes, within the transaction that makes them."""

    def meet(self, key: Hashable) -> Amounts | None:
        """What `read_one` finds, for a caller that is going to change it."""

    def add_to(self, total: int, delta: Delta) -> bool:
        """Add to one total. False, and nothing changed, where it is another one, or as `add`."""

    def settle(self, delta: Delta) -> int | None:
        """Add the pending amount to one total, and hold it; the total alone."""

    def commits_at_once(self) -> bool:
        """Whether each statement is a transaction of its own."""

    def asks_guards(self, delta: Delta) -> bool:
        """Whether the statements of a change raise `NoRoom` where it has too little room."""


class PendingStore(ReadsStore, Protocol):
    """Keeps increments until their rollup, in rows of which writers take unlocked ones."""

    def add(self, delta: Delta, number: int | None) -> int | None:
        """Add to one counter and return its value; None, and nothing changed, if it cannot."""

    def add_on(
        self, delta: Delta, number: int | None, condition: Condition
    ) -> ConditionResult | None:
        """Add one, or take one away, on a condition; None, and nothing changed, as `add`."""

    def add_many(self, deltas: Sequence[Delta]) -> Mapping[Hashable, int]:
        """Add to many counters, all or none; their values."""


class RightsStore(PendingStore, Protocol):
    """The same, where a floor is held by rows that are never below zero."""

    def take(self, delta: Delta, floor: int) -> int | None:
        """Take from a row that has enough and return the value; None, and nothing changed."""

    def share(self, delta: Delta, floor: int, refuse: Callable[[int], CounterError]) -> int:
        """Take from all rows together, share the rest among them, and return the value.

        Raises:
            what ``refuse`` makes of the value that was met: it is not enough.
        """


class DeltasStore(ReadsStore, Protocol):
    """Keeps an entry for each change; a token stands in it once."""

    def append(self, key: str, by: int) -> UUID:
        """Append an entry with a token of its own; the token."""

    def append_once(self, key: str, by: int, token: UUID) -> Outcome:
        """Append an entry, unless its token was used: appended, replayed, or claimed elsewhere."""

    def append_many(self, entries: Sequence[tuple[str, int]]) -> None:
        """Append entries with tokens of their own, all or none."""

    def append_many_once(self, entries: Mapping[UUID, tuple[str, int]]) -> int | None:
        """Append those whose tokens were not used; how many were. None: one is known elsewhere."""

    def copy(self, entries: Sequence[tuple[str, int]]) -> None:
        """Append entries with tokens of their own by the fastest way of the database."""

    def adjust(self, changes: Mapping[str, int]) -> Mapping[str, UUID]:
        """Append an entry that corrects each counter; the tokens, each of its own."""

    def add_cells(self, deltas: Sequence[Delta]) -> None:
        """Add to the cells of entries, within the transaction that appends them."""

    def open(self, keys: Sequence[str]) -> None:
        """Make the totals that entries need, in the order of their keys."""

    def rolled_up(self, key: str) -> tuple[int, datetime]:
        """The total alone, and the moment before which nothing is missing in it."""
