"""What a strategy can do."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from contextlib import AbstractContextManager
from typing import ClassVar, Protocol

from django_counters.types import Batch, Reading


class Strategy(Protocol):
    """Decides where pending increments wait, and so how a value is put together."""

    consistencies: ClassVar[tuple[str, ...]]

    def apply(self, batch: Batch) -> Mapping[Hashable, int]:
        """Apply all deltas of a batch or none, and return the new values."""

    def values(self, keys: Iterable[Hashable]) -> Mapping[Hashable, int]:
        """Return the values that exist among ``keys``, all of one moment."""

    def all_or_nothing(self) -> AbstractContextManager[None]:
        """A block whose changes are applied together, with the errors of a single change."""

    def read(self, key: Hashable, consistency: str) -> Reading:
        """Return one value and what is known of it."""
