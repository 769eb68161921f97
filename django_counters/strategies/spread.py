"""What the sharded and the slotted strategy share: increments wait in several rows."""

from __future__ import annotations

import zlib
from collections.abc import Hashable, Mapping
from typing import ClassVar

from django_counters.exceptions import CounterOverflow, RecordMissing, UnsupportedBounds
from django_counters.options import Option, is_integer
from django_counters.stores.base import PendingStore
from django_counters.stores.sql.dialects import Table
from django_counters.stores.sql.pending import SqlPending
from django_counters.strategies.base import Summed
from django_counters.types import Batch, Delta

AUTO = "auto"
MOST_ROWS = 64
_LARGEST_NUMBER = 1024


def rows(name: str, owner: str) -> Option:
    """The option that says how many rows a counter may have."""
    return Option(
        name,
        AUTO,
        f"{AUTO!r} or an integer from 1 to {_LARGEST_NUMBER}",
        f"How many rows {owner} may have. "
        f"{AUTO!r}: as many as its writers need, up to {MOST_ROWS}.",
        lambda value: value == AUTO or is_integer(value, 1, _LARGEST_NUMBER),
    )


def spread_over(table: Table, using: str, declared: int | str) -> tuple[SqlPending, int]:
    """What a strategy of this kind is made of."""
    most = MOST_ROWS if isinstance(declared, str) else declared
    return SqlPending(table, using, most), most


class Spread(Summed):
    """Part of the caller's transaction, and writers do not wait for each other's transactions.

    A writer takes a row that nobody holds, or makes a new one, up to ``cap``. It waits where as
    many transactions hold all of them, and, seldom, where it draws the number of a row that
    another open transaction has just made. The value is total + pending of one snapshot, and what
    a change returns is that of its own snapshot and itself. A floor or ceiling cannot hold.
    """

    holds: ClassVar[bool] = False

    def __init__(self, pending: PendingStore, cap: int) -> None:
        super().__init__(pending)
        self._pending = pending
        self._cap = cap

    def apply(self, batch: Batch) -> Mapping[Hashable, int]:
        """Apply a batch, in one statement."""
        for delta in batch.deltas:
            if delta.is_bounded:
                raise UnsupportedBounds(key=self._pending.label(delta.key), strategy=self.name)
        if len(batch.deltas) > 1:
            return self._pending.add_many(batch.deltas)
        (delta,) = batch.deltas
        value = self._pending.add(delta, self._number(delta.route))
        if value is None:
            raise self._refused(delta)
        return {delta.key: value}

    def _number(self, route: object) -> int | None:
        """The row of a route, the same in every process and on every machine."""
        return None if route is None else zlib.crc32(str(route).encode()) % self._cap

    def _refused(self, delta: Delta) -> Exception:
        amounts = self._pending.read_one(delta.key)
        if not self._pending.inserts and (amounts is None or amounts.total is None):
            return RecordMissing(key=self._pending.label(delta.key))
        low, high = self._pending.capacity
        return CounterOverflow(key=self._pending.label(delta.key), low=low, high=high)
