"""What a store can promise."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from django_counters.types import Amounts, Delta


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
