"""What a store can promise."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from enum import IntEnum
from typing import Protocol
from uuid import UUID

from django_counters.tokens import Token
from django_counters.types import Amounts, Delta


class Outcome(IntEnum):
    """What became of an entry that was to be appended."""

    APPENDED = 0
    REPLAYED = 1
    CONFLICT = 2
    EXPIRED = 3
    FENCED = 4
    CLAIMED = 5
    OVERFLOW = 6


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


class TotalsStore(ReadsStore, Protocol):
    """Keeps one total per key; every verb is one atomic step."""

    def add(self, delta: Delta) -> int | None:
        """Add to one total and return it.

        None, and nothing changed, where its bounds refuse or increments wait elsewhere.
        """

    def add_many(self, deltas: Sequence[Delta]) -> Mapping[Hashable, int]:
        """Add to many totals in the order of their keys; their values. Asks no bounds."""

    def settle(self, key: Hashable, by: int = 0) -> int | None:
        """Add to one total whatever waits elsewhere, and hold it; the total alone."""


class PendingStore(ReadsStore, Protocol):
    """Keeps increments until their rollup, in rows of which writers take what nobody holds."""

    def add(self, delta: Delta, number: int | None) -> int | None:
        """Add to one counter and return its value; None, and nothing changed, if it cannot."""

    def add_many(self, deltas: Sequence[Delta]) -> Mapping[Hashable, int]:
        """Add to many counters, all or none; their values."""


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

    def open(self, keys: Sequence[str]) -> None:
        """Make the totals that entries need, in the order of their keys."""

    def rolled_up(self, key: str) -> tuple[int, datetime]:
        """The total alone, and the moment before which nothing is missing in it."""


class TokensStore(Protocol):
    """Keeps what tokens were used for."""

    def all_or_nothing(self) -> AbstractContextManager[None]:
        """A block that leaves nothing behind when it ends with an error."""

    def claim(
        self, token: Token, fingerprint: bytes, of_entry: Callable[[str, int], bytes]
    ) -> Mapping[str, int | str] | None:
        """Use a token; what was kept of its first use, if it was used before.

        ``of_entry``: the fingerprint of an entry of the ledger that has the token.
        """

    def keep(self, token: Token, result: Mapping[str, int | str]) -> None:
        """Keep what the call returned."""

    def prune(self) -> int:
        """Forget tokens that nobody may use any more; how many those were."""
