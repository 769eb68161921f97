"""What a store can promise."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from django_counters.types import Delta


class TotalsStore(Protocol):
    """Keeps one total per key; every verb is one atomic step."""

    capacity: tuple[int, int]
    inserts: bool

    def add(self, delta: Delta) -> int | None:
        """Add to one total and return it; None, and nothing changed, where its bounds refuse."""

    def add_many(self, deltas: Sequence[Delta]) -> Mapping[Hashable, int]:
        """Add to many totals in the order of their keys and return them. Asks no bounds."""

    def read(self, keys: Iterable[Hashable]) -> Mapping[Hashable, int]:
        """Return the totals that exist among ``keys``, all of one moment."""

    def read_one(self, key: Hashable) -> int | None:
        """Return one total; None if it does not exist."""

    def label(self, key: Hashable) -> str:
        """What people call the counter of a key."""

    def all_or_nothing(self) -> AbstractContextManager[None]:
        """A block that leaves nothing behind when it ends with an error."""
