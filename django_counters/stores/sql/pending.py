"""Increments that wait in rows of their own: shards of named counters, slots of records."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

from django_counters.exceptions import CounterOverflow, RecordMissing
from django_counters.stores.sql.cells import MANY_NUMBERED, NUMBERED, NUMBERED_ONCE
from django_counters.stores.sql.dialects import Table
from django_counters.stores.sql.totals import SqlReads
from django_counters.types import Claim, Delta, Taken


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

    def add_once(self, delta: Delta, number: int | None, claim: Claim) -> Taken | None:
        """Add one for an actor, or take it back, with the row of the actor in one statement.

        None, and nothing changed, where there is no such statement, and where `add` says None.
        """
        key, by = delta.key, delta.by
        if claim.time is not None:
            return None
        kind = by, not delta.effects
        if kind not in self._once:
            spread = self._session.dialect.actors.spread
            sql = spread(self._sql, self._quoted, self._reads.one, by, alone=not delta.effects)
            self._once[kind] = sql
        sql = self._once[kind]
        if sql is None:
            return None
        params: tuple[Any, ...] = self._actors.row(key, claim)
        if self._named:
            params = (*params, number)
        else:
            address = self._owner.address(key)
            params = (
                *params,
                key,
                *self._sql.arrange(by, number, key, address),
                *self._reading(key),
            )
        return self._take(sql, params, NUMBERED_ONCE, delta)

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
