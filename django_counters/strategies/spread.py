"""Counters that are spread over a few rows: shards of named ones, slots of records."""

from __future__ import annotations

import zlib
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import ClassVar

from django_counters.errors import CounterError, CounterOverflow, RecordMissing, UnsupportedBounds
from django_counters.measure import Condition, ConditionResult
from django_counters.options import Option, is_integer
from django_counters.stores.base import RightsStore
from django_counters.stores.sql.dialects import Table
from django_counters.stores.sql.totals import SqlRights
from django_counters.strategies.base import Strategy, Summed, refusal
from django_counters.strategies.declaring import Capabilities, Declaration, Shared
from django_counters.types import Batch, Delta

AUTO = "auto"
MOST_ROWS = 64
# Each of them has a part of what may be taken: more are as fast, and make it scarce sooner.
_ROWS_WITH_A_FLOOR = 16
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


def spread_over(table: Table, using: str, declared: int | str) -> tuple[SqlRights, int]:
    """The parts of a strategy of this kind."""
    most, shares = (
        (MOST_ROWS, _ROWS_WITH_A_FLOOR) if isinstance(declared, str) else (declared, declared)
    )
    return SqlRights(table, using, most, shares), most


class Spread(Summed):
    """Part of the caller's transaction, and writers do not wait for each other's transactions.

    A writer takes an unlocked row, or makes a new one, up to ``cap``. It waits where as
    many transactions hold all of them, and, seldom, where it draws the number of a row that
    another open transaction has just made. The value is total + pending of one snapshot, and the
    result of a change is that of its own snapshot and itself.

    A floor holds at every commit: each row has a part of what may be taken. A writer that finds no
    row with enough holds all of them, and shares their amounts: so no writer is refused while there
    is enough. A ceiling cannot hold.
    """

    holds: ClassVar[bool] = False

    def __init__(self, pending: RightsStore, cap: int) -> None:
        super().__init__(pending)
        self._pending = pending
        self._cap = cap

    def apply(self, batch: Batch) -> Mapping[Hashable, int]:
        """Apply a batch, in one statement; with a floor, nearly always in one for each counter."""
        for delta in batch.deltas:
            self._refuse_ceiling(delta)
        # A bound that is no ceiling is a floor from here on.
        floors = any(delta.is_bounded for delta in batch.deltas)
        if len(batch.deltas) > 1:
            return self._apart(batch.deltas) if floors else self._pending.add_many(batch.deltas)
        (delta,) = batch.deltas
        if floors:
            return {delta.key: self._take(delta)}
        value = self._pending.add(delta, self._number(delta.route))
        if value is None:
            raise self._refused(delta)
        return {delta.key: value}

    def apply_on(self, delta: Delta, condition: Condition) -> ConditionResult | None:
        """Make a change and the row of its condition in one statement."""
        self._refuse_ceiling(delta)
        # A floor is not asked: only a counted amount is taken back.
        return self._pending.add_on(delta, self._number(delta.route), condition)

    def _refuse_ceiling(self, delta: Delta) -> None:
        """Refuse a change that moves towards a ceiling, or what a quota has counted."""
        if delta.guard is not None or (delta.by > 0 and delta.is_bounded):
            raise UnsupportedBounds(key=self._pending.label(delta.key), strategy=self.name)

    def _apart(self, deltas: Sequence[Delta]) -> Mapping[Hashable, int]:
        """Apply changes one by one, in the order of their keys, all or none."""
        with self._pending.all_or_nothing():
            values: dict[Hashable, int] = {}
            for delta in sorted(deltas, key=lambda one: str(one.key)):
                values.update(self.apply(Batch((delta,))))
        return values

    def _take(self, delta: Delta) -> int:
        """Take away, if that leaves the floor."""
        floor = delta.bounds.floor
        assert floor is not None
        value = self._pending.take(delta, floor)
        if value is not None:
            return value
        amounts = self._pending.read_one(delta.key)
        if not self._pending.inserts and (amounts is None or amounts.total is None):
            raise RecordMissing(key=self._pending.label(delta.key))
        # The refusal goes by committed rows: open transactions can only take more.
        met = amounts.value if amounts else 0
        if met + delta.by < floor:
            raise self._short(delta, met)
        return self._pending.share(delta, floor, partial(self._short, delta))

    def _short(self, delta: Delta, value: int) -> CounterError:
        return refusal([(delta, value)], self._pending.label)

    def _number(self, route: object) -> int | None:
        """The row of a route, the same in every process and on every machine."""
        return None if route is None else zlib.crc32(str(route).encode()) % self._cap

    def _refused(self, delta: Delta) -> Exception:
        amounts = self._pending.read_one(delta.key)
        if not self._pending.inserts and (amounts is None or amounts.total is None):
            return RecordMissing(key=self._pending.label(delta.key))
        low, high = self._pending.capacity
        return CounterOverflow(key=self._pending.label(delta.key), low=low, high=high)


class Sharded(Spread):
    """For hot named counters that have to join a transaction."""

    name: ClassVar[str] = "sharded"


def _build_sharded(table: Table, using: str, _: Shared, *, shards: int | str) -> Strategy:
    return Sharded(*spread_over(table, using, shards))


SHARDED = Declaration(
    Sharded,
    Capabilities(floors=True, shards=True, conditions=True),
    _build_sharded,
    namespaces=(rows("shards", "a counter"),),
    guesses={"sharded": "Shards belong to named counters; a field is 'slotted'."},
)
# For counters whose namespace declares another strategy: that one takes from the total.
SHARDED_ELSEWHERE = replace(SHARDED, can=SHARDED.can._replace(floors=False))


class Slotted(Spread):
    """For hot counters of a record that have to join a transaction."""

    name: ClassVar[str] = "slotted"


def _build_slotted(table: Table, using: str, _: Shared, *, slots: int | str) -> Strategy:
    return Slotted(*spread_over(table, using, slots))


SLOTTED = Declaration(
    Slotted,
    Capabilities(floors=True, slots=True, conditions=True),
    _build_slotted,
    fields=(rows("slots", "a record")._replace(code="E017"),),
    guesses={"slotted": "Slots belong to records; a named counter is 'sharded'."},
)
# For counters whose field declares another strategy: that one takes from the total.
SLOTTED_ELSEWHERE = replace(SLOTTED, can=SLOTTED.can._replace(floors=False))
