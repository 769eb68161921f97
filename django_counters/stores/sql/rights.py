"""Rows of a counter with a floor: who takes from one of them need not know the others."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from contextlib import AbstractContextManager

from django_counters.exceptions import CounterError, CounterOverflow, RecordMissing
from django_counters.stores.sql.cells import NUMBERED
from django_counters.stores.sql.dialects import Table
from django_counters.stores.sql.pending import SqlPending
from django_counters.stores.sql.totals import SqlTotals
from django_counters.types import INT8, Delta


class SqlRights(SqlPending):
    """Adds to unlocked rows, and takes from one that has enough, of at most ``most``.

    Unlocked rows, and totals, are never below zero and the floor, except where another
    strategy has left them so: then all of them are held first.
    """

    def __init__(self, table: Table, using: str, cap: int, most: int) -> None:
        super().__init__(table, using, cap)
        self._most = most
        self._rights = self._session.dialect.rights(self._quoted, most)
        self._totals = SqlTotals(table, using)

    def take(self, delta: Delta, floor: int) -> int | None:
        """Take from one row in one statement and return the value: total, pending, and this.

        None, and nothing changed, where no row has enough, or the record is missing.

        Raises:
            RetryTransaction: the caller's transaction does not see what others have taken.
        """
        key, by = delta.key, delta.by
        if max(floor, 0) - by > INT8[1]:
            # More than any row has, and than a parameter can say.
            return None
        params = self._rights.arrange(by, floor, key, self._owner.address(key))
        with self._serializable(), self._overflow(self.label(key)):
            rows = self._cells.run(self._rights.take, params, NUMBERED, (delta,))
        return None if not rows or None in rows[0] else int(rows[0][0])

    def share(self, delta: Delta, floor: int, refuse: Callable[[int], CounterError]) -> int:
        """Take from all that there is, and share the rest among rows; the new value.

        No other transaction takes anything meanwhile: it holds the total, then all rows.

        Raises:
            what ``refuse`` makes of the value that was met: it is not enough. Nothing was changed.
            RecordMissing: the record was deleted meanwhile.
            RetryTransaction: as above; or others who share it wait for this one.
        """
        key, by = delta.key, delta.by
        with self._serializable(), self._session.read_committed():
            total = self._totals.settle(Delta(key, 0))
            if total is None:
                raise RecordMissing(key=self.label(key))
            value = total + self._tail(key)
            # Where another strategy was, rows may be below zero.
            gathered = sum(self._gathered(key, -1))
            while value + gathered + by < floor:
                rows = self._gathered(key, INT8[1])
                if not rows:
                    # No row was left when this was looked at, and all that were are ours.
                    raise refuse(value + gathered)
                gathered += sum(rows)
            shared = self._shared(key, value + gathered + by - floor, -by)
            left = Delta(key, gathered + by - shared, effects=delta.effects)
            if self._totals.settle(left) is None:
                raise CounterOverflow(
                    key=self.label(key), low=self.capacity[0], high=self.capacity[1]
                )
            # Rows that were not needed are part of the value, too.
            amounts = self.read_one(key)
        # The total is held, so there is one.
        assert amounts is not None
        return amounts.value

    def _serializable(self) -> AbstractContextManager[None]:
        return self._session.serializable("the decrement")

    def _tail(self, key: Hashable) -> int:
        """The amount that waits in the ledger. It stays, as a transaction that lands it has to hold
        the total."""
        if not self._rights.tail:
            return 0
        ((waits,),) = self._session.run(self._rights.tail, (key,), writes=False)
        return int(waits or 0)

    def _gathered(self, key: Hashable, most: int) -> list[int]:
        """What rows had that have no more than this, and now are gone."""
        rows = self._session.run(self._rights.gather, (*self._owner.address(key), most))
        return [int(value) for (value,) in rows]

    def _shared(self, key: Hashable, spare: int, needed: int) -> int:
        """Make rows that have as much as was needed just now, or more; their sum."""
        many = min(self._most, spare // needed)
        if many == 0:
            return 0
        numbers = self._session.dialect.keys(range(many))
        params = (*self._owner.address(key), spare // many, numbers)
        return spare // many * len(self._session.run(self._rights.share, params))
