"""The exact strategy: one row per counter, the total is the value."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from contextlib import nullcontext
from typing import ClassVar

from django_counters.errors import Contention, CounterError, CounterOverflow, RecordMissing
from django_counters.measure import Condition, ConditionResult
from django_counters.projector import ChangeGuard
from django_counters.stores.base import NoRoom, TotalsStore
from django_counters.stores.sql.dialects import Table
from django_counters.stores.sql.totals import SqlTotals
from django_counters.strategies import base
from django_counters.strategies.declaring import Capabilities, Declaration, Shared
from django_counters.types import INT8, Amounts, Batch, Delta, Peak, Raised


class Exact(base.Summed):
    """Linearizable per counter, part of the caller's transaction, bounds hold at every commit.

    Writers of one counter wait for each other until the transaction of the first one ends: count
    last in a transaction, and choose another strategy for counters that all requests share.
    """

    name: ClassVar[str] = "exact"
    holds: ClassVar[bool] = True

    def __init__(self, totals: TotalsStore) -> None:
        super().__init__(totals)
        self._totals = totals

    def apply(self, batch: Batch) -> Mapping[Hashable, int]:
        """Apply a batch: one statement, and where bounds have to hold a savepoint around it."""
        if len(batch.deltas) == 1:
            (delta,) = batch.deltas
            guard = delta.guard
            if guard is None:
                return {delta.key: self._add(delta)}
            change = self._guarded if delta.by > 0 else self._take_back
            return {delta.key: change(delta, guard)}
        if not any(delta.is_bounded for delta in batch.deltas):
            return self._totals.add_many(batch.deltas)
        with self._totals.all_or_nothing():
            falling = [delta for delta in batch.deltas if delta.by < 0 and delta.guard is not None]
            bare = {delta.key: _bare(delta) for delta in falling}
            values = self._totals.add_many([bare.get(delta.key, delta) for delta in batch.deltas])
            if len(values) < len(batch.deltas):
                swallowed = next(d.key for d in batch.deltas if d.key not in values)
                raise Contention(key=self._totals.label(swallowed), attempts=1)
            # The rows are locked now: the refusal names these values, for all keys at once.
            before = [(delta, values[delta.key] - delta.by) for delta in batch.deltas]
            refused = [(d, value) for d, value in before if not d.bounds.admits(value, d.by)]
            if refused:
                raise base.refusal(refused, self._totals.label)
            if falling:
                self._totals.add_cells(base.taken_guarded(falling, self._totals))
            base.refuse_guarded(batch.deltas, self._totals, counted=True)
        return values

    def apply_on(self, delta: Delta, condition: Condition) -> ConditionResult | None:
        """Make a change and the row of its condition in one statement."""
        return None if delta.guard is not None else self._totals.add_on(delta, condition)

    def _guarded(self, delta: Delta, guard: ChangeGuard) -> int:
        """Make an increase that its guard admits. The total is locked when the guard looks.

        It is one statement where that can refuse by itself: an error, so a savepoint in a
        transaction is kept for it.
        """
        asks = self._totals.asks_guards(delta)
        alone = asks and self._totals.commits_at_once()
        try:
            with nullcontext() if alone else self._totals.all_or_nothing():
                value = self._add(delta)
                if not asks:
                    base.refuse_guarded((delta,), self._totals, counted=True)
        except NoRoom as error:
            raise guard.refusal(delta, error.sums, self._totals.label) from None
        return value

    def _take_back(self, delta: Delta, guard: ChangeGuard) -> int:
        """Make a decrease; each period loses no more than it has, and the total is held by then.

        Else what other periods have counted would be room in this one.
        """
        with self._totals.all_or_nothing():
            value = self._add(_bare(delta))
            self._totals.add_cells(guard.taken((delta,), self._totals))
        return value

    def _add(self, delta: Delta) -> int:
        value = self._totals.add(delta)
        return self._refuse_or_settle(delta) if value is None else value

    def maximum(self, peak: Peak, heard: base.Heard) -> Raised:  # noqa: ARG002 - it is done by then
        """Raise the total to a number; nothing is written where the value is large enough.

        The row is read without a lock, and changed only if it is still what was read; else while
        no other transaction can change it.
        """
        amounts = self._totals.meet(peak.key)
        delta = self._missing(peak, amounts)
        if delta.by > 0 and not self._totals.add_to((amounts and amounts.total) or 0, delta):
            delta = self._raise_held(peak)
        # What lacks less than nothing is so much larger.
        return Raised(peak.number - min(delta.by, 0), max(delta.by, 0))

    def _raise_held(self, peak: Peak) -> Delta:
        """Raise it while it is held, with amounts pending elsewhere; the difference."""
        with self._totals.all_or_nothing():
            if self._totals.settle(Delta(peak.key, 0)) is None:
                raise RecordMissing(key=self._totals.label(peak.key))
            delta = self._missing(peak, self._totals.read_one(peak.key))
            if delta.by > 0 and self._totals.settle(delta) is None:
                # The value would fit, the total alone does not: a rollup makes room.
                raise self._overflow(delta)
        return delta

    def _missing(self, peak: Peak, amounts: Amounts | None) -> Delta:
        """The difference from a value up to a number; not above zero where the value is large
        enough."""
        if (amounts is None or amounts.total is None) and not self._totals.inserts:
            raise RecordMissing(key=self._totals.label(peak.key))
        value = amounts.value if amounts else 0
        delta = Delta(peak.key, peak.number - value, peak.bounds)
        if delta.by > 0 and not peak.bounds.within(self._totals.capacity).admits(value, delta.by):
            raise self._refused(delta, value)
        if delta.by > INT8[1]:
            raise self._overflow(delta)
        return delta

    def _refuse_or_settle(self, delta: Delta) -> int:
        """Say why a change was refused, or make it while no other transaction can change the
        counter.

        It is made where increments of the counter wait elsewhere, as they do after a change of
        strategy, and where another writer made room since: no caller is refused while there is
        enough.
        """
        self._check(delta)
        with self._totals.all_or_nothing():
            # Held from here on: the value read next is the one that the change will meet.
            held = self._totals.settle(Delta(delta.key, 0))
            if held is None:
                raise Contention(key=self._totals.label(delta.key), attempts=1)
            pending = self._check(delta)
            low, high = self._totals.capacity
            if not low <= held + delta.by <= high:
                # The value would fit, the total alone does not: a rollup makes room.
                raise self._overflow(delta)
            total = self._totals.settle(delta)
            if total is None:
                raise Contention(key=self._totals.label(delta.key), attempts=2)
        return total + pending

    def _check(self, delta: Delta) -> int:
        """Refuse a change that the present value does not admit; return what is pending."""
        amounts = self._totals.read_one(delta.key)
        if (amounts is None or amounts.total is None) and not self._totals.inserts:
            raise RecordMissing(key=self._totals.label(delta.key))
        value = amounts.value if amounts else 0
        if not delta.bounds.within(self._totals.capacity).admits(value, delta.by):
            raise self._refused(delta, value)
        return amounts.pending if amounts else 0

    def _refused(self, delta: Delta, value: int) -> CounterError:
        if delta.bounds.admits(value, delta.by):
            return self._overflow(delta)
        return base.refusal([(delta, value)], self._totals.label)

    def _overflow(self, delta: Delta) -> CounterOverflow:
        low, high = self._totals.capacity
        return CounterOverflow(key=self._totals.label(delta.key), low=low, high=high)


def _bare(delta: Delta) -> Delta:
    """The change of the total alone."""
    return delta._replace(effects=(), guard=None)


def _exact(table: Table, using: str, _: Shared) -> base.Strategy:
    return Exact(SqlTotals(table, using))


EXACT = Declaration(
    Exact,
    Capabilities(
        in_place=True,
        floors=True,
        ceilings=True,
        one_row=True,
        conditions=True,
        raises=True,
    ),
    _exact,
    namespaces=(),
    fields=(),
)
