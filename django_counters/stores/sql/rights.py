"""Increments that wait in rows of their own: shards of named counters, slots of records.

With a floor, a decrement of one row doesn't depend on the others.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from django_counters.conditions import Condition, ConditionResult
from django_counters.errors import CounterError, CounterOverflow, RecordMissing
from django_counters.stores.sql.cells import MANY_NUMBERED, NUMBERED, NUMBERED_CONDITION
from django_counters.stores.sql.dialects import Table
from django_counters.stores.sql.totals import SqlReads, SqlTotals, is_simple
from django_counters.types import INT8, Delta


class SqlPending(SqlReads):
    """Adds to unlocked rows, at most ``cap`` of them for each counter."""

    def __init__(self, table: Table, using: str, cap: int) -> None:
        super().__init__(table, using)
        self._sql = self._session.dialect.spread(self._quoted, cap)
        self._named = table.pending.record is None

    def add(self, delta: Delta, number: int | None) -> int | None:
        """Add to one counter in one statement and return its value: total, pending, and this.

        Takes the row ``number``, waiting for it, or one that no transaction holds. None, and
        nothing changed, where the value would not fit, or the record is missing.
        """
        key, by = delta.key, delta.by
        params = self._sql.arrange(by, number, key, self._owner.address(key))
        with self._overflow(self.label(key)):
            if delta.effects:
                rows = self._cells.run(self._sql.add, params, NUMBERED, (delta,))
            else:
                rows = self._session.run(self._sql.add, params)
        if not rows or None in rows[0]:
            return None
        return int(rows[0][0])

    def add_on(
        self, delta: Delta, number: int | None, condition: Condition
    ) -> ConditionResult | None:
        """Add one, or take one away, with the row of a condition in one statement.

        None, and nothing changed, if there is no such statement, or if `add` returns None.
        """
        key, by = delta.key, delta.by
        if not is_simple(delta, condition):
            return None
        kind = condition.kind
        wanted = kind, by, not delta.effects
        if wanted not in self._on:
            spread = self._session.dialect.conditions.spread
            alone = not delta.effects
            sql = spread(kind, self._sql, self._quoted, self._reads.one, by, alone=alone)
            self._on[wanted] = sql
        sql = self._on[wanted]
        if sql is None:
            return None
        params: tuple[Any, ...] = self._conditions.row(condition)
        if self._named and kind.whole:
            params = (*params, number)
        else:
            held = () if self._named else (key,)
            change = self._sql.arrange(by, number, key, self._owner.address(key))
            params = (*params, *held, *change, *self._reading(key))
        return self._changed(sql, params, NUMBERED_CONDITION, delta)

    def add_many(self, deltas: Sequence[Delta]) -> Mapping[Hashable, int]:
        """Add to many counters, all or none, in the order of their keys; their new values.

        Raises:
            CounterOverflow: a value does not fit; nothing was changed.
        """
        if self._sql.at_once:
            with self._overflow(f"one of {len(deltas)} counters"):
                sums = self._session.dialect.sums({delta.key: delta.by for delta in deltas})
                rows = self._cells.run(self._sql.add_many, sums, MANY_NUMBERED, deltas)
            return {key: int(value) for key, value, _ in rows}
        with self.all_or_nothing():
            return {
                delta.key: self._fitting(delta) for delta in sorted(deltas, key=lambda d: str(d[0]))
            }

    def _fitting(self, delta: Delta) -> int:
        value = self.add(delta, None)
        if value is None:
            if not self.inserts and not self.read([delta.key]):
                raise RecordMissing(key=self.label(delta.key))
            low, high = self.capacity
            raise CounterOverflow(key=self.label(delta.key), low=low, high=high)
        return value


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
