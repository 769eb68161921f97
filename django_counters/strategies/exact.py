"""The exact strategy: one row per counter, the total is the value."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import ClassVar

from django_counters import clock
from django_counters.exceptions import (
    CeilingExceeded,
    Contention,
    CounterError,
    CounterOverflow,
    InsufficientCount,
    RecordMissing,
    UnsupportedConsistency,
)
from django_counters.stores.base import TotalsStore
from django_counters.types import Batch, Delta, Reading, Shortfall

_ATTEMPTS = 20


class Exact:
    """Linearizable per counter, part of the caller's transaction, bounds hold at every commit.

    Writers of one counter wait for each other until the transaction of the first one ends: count
    last in a transaction, and choose another strategy for counters that all requests share.
    """

    consistencies: ClassVar[tuple[str, ...]] = ("exact",)

    def __init__(self, totals: TotalsStore) -> None:
        self._totals = totals

    def apply(self, batch: Batch) -> Mapping[Hashable, int]:
        """Apply a batch: one statement, and where bounds have to hold a savepoint around it."""
        if len(batch.deltas) == 1:
            (delta,) = batch.deltas
            value = self._totals.add(delta)
            return {delta.key: self._refuse_or_repeat(delta) if value is None else value}
        if not any(_is_bounded(delta) for delta in batch.deltas):
            return self._totals.add_many(batch.deltas)
        with self._totals.all_or_nothing():
            values = self._totals.add_many(batch.deltas)
            if len(values) < len(batch.deltas):
                swallowed = next(d.key for d in batch.deltas if d.key not in values)
                raise Contention(key=self._totals.label(swallowed), attempts=1)
            # The rows are locked now: what was found here is what is refused, for all keys at once.
            before = [(delta, values[delta.key] - delta.by) for delta in batch.deltas]
            refused = [(d, value) for d, value in before if not d.bounds.admits(value, d.by)]
            if refused:
                raise self._refusal(refused)
        return values

    def values(self, keys: Iterable[Hashable]) -> Mapping[Hashable, int]:
        """Return the values that exist among ``keys``, of one moment, in one statement."""
        return self._totals.read(keys)

    def all_or_nothing(self) -> AbstractContextManager[None]:
        """A transaction, or a savepoint in the caller's."""
        return self._totals.all_or_nothing()

    def read(self, key: Hashable, consistency: str) -> Reading:
        """Return the value of one counter; the only consistency is ``"exact"``."""
        if consistency not in self.consistencies:
            raise UnsupportedConsistency(
                strategy="exact", consistency=consistency, offered=", ".join(self.consistencies)
            )
        as_of = clock.now()
        value = self._totals.read_one(key) or 0
        return Reading(value=value, total=value, pending=0, as_of=as_of, consistency=consistency)

    def _refuse_or_repeat(self, delta: Delta) -> int:
        """Say why a change was refused, or repeat it where the reason is gone by now."""
        for _ in range(_ATTEMPTS):
            found = self._totals.read_one(delta.key)
            if found is None and not self._totals.inserts:
                raise RecordMissing(key=self._totals.label(delta.key))
            if not self._admits(found or 0, delta):
                raise self._refused(delta, found or 0)
            # Another writer made room since: nobody is refused while there is enough.
            value = self._totals.add(delta)
            if value is not None:
                return value
        raise Contention(key=self._totals.label(delta.key), attempts=_ATTEMPTS)

    def _admits(self, value: int, delta: Delta) -> bool:
        return delta.bounds.within(self._totals.capacity).admits(value, delta.by)

    def _refused(self, delta: Delta, value: int) -> CounterError:
        if delta.bounds.admits(value, delta.by):
            low, high = self._totals.capacity
            return CounterOverflow(key=self._totals.label(delta.key), low=low, high=high)
        return self._refusal([(delta, value)])

    def _refusal(self, refused: Sequence[tuple[Delta, int]]) -> CounterError:
        """The error for deltas that their bounds do not admit; a floor speaks before a ceiling."""
        label = self._totals.label
        short = tuple(
            Shortfall(
                label(delta.key), -delta.by, max(0, value - delta.bounds.floor), delta.bounds.floor
            )
            for delta, value in refused
            if delta.by < 0 and delta.bounds.floor is not None
        )
        if short:
            key, requested, available, bound = short[0]
            return InsufficientCount(
                key=key, requested=requested, available=available, floor=bound, shortfalls=short
            )
        full = tuple(
            Shortfall(
                label(delta.key),
                delta.by,
                max(0, delta.bounds.ceiling - value),
                delta.bounds.ceiling,
            )
            for delta, value in refused
            if delta.bounds.ceiling is not None
        )
        key, requested, available, bound = full[0]
        return CeilingExceeded(
            key=key, requested=requested, available=available, ceiling=bound, shortfalls=full
        )


def _is_bounded(delta: Delta) -> bool:
    return (delta.bounds.floor if delta.by < 0 else delta.bounds.ceiling) is not None
