"""What cached counters ask of Redis and of the database, and what both answer."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any, NamedTuple, Protocol

from django_counters.errors import CounterError
from django_counters.stores.base import PendingField, PendingParts, ReadsStore
from django_counters.types import Amounts, Delta, Sums

# Where a cache compares, it is exact up to here.
LARGEST_SUM = 2**53 - 1
#: The age for who wants no totals of a `CachedStore`.
NO_TOTALS = -1


class CellSearch(NamedTuple):
    """A page to look through for cells of discarded counters, which are in one slot."""

    counters: tuple[str, ...]
    generation: str
    cursor: str = "0"


class Lease(NamedTuple):
    """The right to fill in a total that was not known at a moment (milliseconds, by Redis)."""

    version: str
    moment: int


class CachedState(NamedTuple):
    """The state of one counter in a cache of pending increments.

    Attributes:
        total: the total; None where it is not known there.
        pending: the amount that waits.
        age: how long ago the total was asked for, in milliseconds.
        waits: where the total is not known, the amount that waits in each generation.
        lease: where it is not known, and was asked for, the right to fill it in.
        kept: where this caller is to ask for it before it is too old: that total, and its age.
        asked: where it is not known, whether another caller asks for it just now.
    """

    total: int | None
    pending: int
    age: int = 0
    waits: tuple[tuple[str, int], ...] = ()
    lease: Lease | None = None
    kept: tuple[int, int] | None = None
    asked: bool = False


class Added(NamedTuple):
    """The amounts added, and the refusals. In a cluster it may be some of both."""

    found: Mapping[str, CachedState]
    refused: Mapping[str, CounterError]


class CachedStore(Protocol):
    """Keeps increments outside of the database until they are landed.

    Questions come as requests of the store's own kind. The caller sends one, and waits for the
    answer in its own way.
    """

    name: str
    shown: str
    source: str

    def add(self, deltas: Mapping[str, Delta], age: int) -> Any:
        """Add to counters and their cells; `Added`.

        Totals in it are not older than ``age`` milliseconds. There are none where that is negative.
        """

    def add_only(self, counter: str, by: int, age: int) -> Any:
        """Add to one counter without cells in the shortest way; None if that is not open.

        ``by`` is at most `LARGEST_SUM`, either way. ``age`` as in `add`.
        """

    def add_once(
        self, counter: str, delta: Delta, token: str, age: int, window: tuple[timedelta, timedelta]
    ) -> Any:
        """Add unless the token was used or is out of its window.

        Returns `CachedState`, and whether it was used.

        ``window``: how long ago and how far ahead the time of a token may be.
        """

    def maximum(self, counter: str, number: int, age: int, told: tuple[Lease, int] | None) -> Any:
        """Add what a counter lacks of a number; `Raised`, or `CachedState` without a known total.

        It is known where it is not older than ``age`` milliseconds, or where the caller was
        ``told`` it, without what waits, under a lease that is still good.
        """

    def look(self, counters: Iterable[str], age: int) -> Any:
        """Ask for counters; what is `CachedState` of each. No totals where ``age`` is negative."""

    def fill(self, totals: Mapping[str, tuple[int | None, Lease]]) -> Any:
        """Fill in totals under their leases. None: it cannot be, so waiting is useless."""

    def forget(self, counters: Iterable[str]) -> Any:
        """Forget the totals that another change than a flush has changed."""

    def discard(self, counters: Iterable[str]) -> Any:
        """Take away what waits for counters that are no more, and forget their totals.

        Returns the searches for their cells.
        """

    def discard_cells(self, search: CellSearch) -> Any:
        """Take away a page of the cells of discarded counters; return the search that is left.

        Cells of a counter that was counted since stay. Returns None after the last page.
        """

    def parts(self, counter: str, before: PendingParts | None = None) -> Any:
        """Read a page of pending increments of a counter and its cells, as `PendingParts`.

        ``before``: the previous page. The first page sets the moment of all of them. No field is on
        two pages.
        """

    def discard_sets(self, counter: str, sets: Sequence[PendingField]) -> Any:
        """Take away what actors of a counter have, as `parts` has returned it."""

    def settle(self, counter: str, token: str, value: int) -> Any:
        """Remember what a call with a token returned, where its answer did not say it."""

    def send(self, request: Any) -> Any:
        """The answer to a request, in one round trip."""

    async def asend(self, request: Any) -> Any:
        """`send` for async code."""

    def clear(self) -> None:
        """Delete all that is kept, also what waits to be landed."""


class LandedStore(ReadsStore, Protocol):
    """Reads landed totals, and knows when the caller's transaction ends."""

    #: The alias of its database.
    using: str

    def read_landed(
        self, keys: Iterable[Hashable], generations: Sequence[str]
    ) -> tuple[Mapping[Hashable, Amounts], frozenset[str]]:
        """Total and pending of those that exist, and which generations have landed by then."""

    def commits_at_once(self) -> bool:
        """Whether a change is committed by its own statement."""

    def waits_for_commit(self) -> bool:
        """Whether the caller has a transaction open, other than that of a `TestCase`."""

    def sees_settled(self) -> bool:
        """Whether a read sees all committed changes, and none that may be rolled back."""

    def call_after_commit(self, call: Callable[[], object]) -> None:
        """Call a function when the caller's transaction commits; else never."""

    def after_commit(
        self,
        sums: Sums[Hashable],
        send: Callable[[Sums[Hashable]], None],
        *,
        merge: bool,
    ) -> None:
        """Send sums when the caller's transaction commits; else never."""
