"""Combining: threads that count at the same moment are served by one of them."""

from __future__ import annotations

import threading
from collections.abc import Hashable, Mapping

from django.db import Error

from django_counters.exceptions import Contention, CounterError, OutcomeUnknown
from django_counters.stores.base import TotalsStore
from django_counters.strategies.exact import Exact
from django_counters.types import INT8, UNBOUNDED, Batch, Delta

# Seconds after which a waiting thread looks whether the leader has gone without a word.
PATIENCE = 0.25


class _Call:
    """One waiting increment, and in the end its value or its error."""

    __slots__ = ("answered", "delta", "error", "value")

    def __init__(self, delta: Delta) -> None:
        self.delta = delta
        self.value: int | None = None
        self.error: Exception | None = None
        # A bare lock: an Event takes as long to make and to set as a third of an increment.
        self.answered = threading.Lock()
        self.answered.acquire()

    @property
    def waits(self) -> bool:
        """Whether it has no answer yet."""
        return self.value is None and self.error is None


class Combining(Exact):
    """Exact counters of which threads share statements. Keeps no number, only who waits.

    Outside a transaction, one of several threads applies the sum of all that wait in one statement.
    Each call returns after the commit, with the value that it would have had alone, in one order of
    all; an error reaches the calls that it concerns. Within a transaction, with bounds, with cells,
    and for batches, it does nothing.

    The thread that holds ``_leading`` leads, and takes all that wait. The first that waits is next:
    it waits for that lock, and the others for their answers. Nothing is handed over, so that an
    exception anywhere leaves nothing undone that another thread needs: a lock is released as its
    block ends, and who waits in vain looks for itself. If its call has been taken by then, and was
    not answered, it is not known whether it was counted.
    """

    def __init__(self, totals: TotalsStore, using: str) -> None:
        super().__init__(totals)
        self._using = using
        # Reentrant: signal handlers and execute wrappers may count, too.
        self._leading = threading.RLock()
        self._queue = threading.RLock()
        self._waiting: list[_Call] = []

    def apply(self, batch: Batch) -> Mapping[Hashable, int]:
        """Apply a batch, together with those of other threads where that is possible."""
        deltas = batch.deltas
        alone = len(deltas) != 1 or deltas[0].bounds != UNBOUNDED or deltas[0].effects
        if alone or not self._totals.commits_at_once():
            return super().apply(batch)
        call = _Call(deltas[0])
        try:
            with self._queue:
                self._waiting.append(call)
                follows = self._waiting[0] is not call
            if follows:
                call.answered.acquire(timeout=PATIENCE)
            if call.waits:
                self._lead(call)
        except BaseException:
            # An exception from outside: a call that was not taken yet need not be counted.
            with self._queue:
                self._waiting = [one for one in self._waiting if one is not call]
            raise
        if call.error is not None:
            raise call.error
        assert call.value is not None
        return {call.delta.key: call.value}

    def _lead(self, own: _Call) -> None:
        """Serve all that wait, unless another leader has served this call meanwhile."""
        with self._leading:
            if not own.waits:
                return
            with self._queue:
                calls, self._waiting = self._waiting, []
            if own not in calls:
                own.error = OutcomeUnknown(using=self._using)
            try:
                self._serve(calls)
            finally:
                for call in calls:
                    if call.waits:
                        call.error = OutcomeUnknown(using=self._using)
                    call.answered.release()

    def _serve(self, calls: list[_Call]) -> None:
        sums: dict[Hashable, int] = {}
        for call in calls:
            sums[call.delta.key] = sums.get(call.delta.key, 0) + call.delta.by
        try:
            present = self._apply_sums(sums)
        except OutcomeUnknown:
            for call in calls:
                call.error = OutcomeUnknown(using=self._using)
        except (CounterError, Error):
            # Any other one is not of the database: whether it came after the commit is not known.
            self._serve_each(calls)
        else:
            for key in sums:
                mine = [call for call in calls if call.delta.key == key]
                _answer_all(mine, present.get(key), sums[key])

    def _apply_sums(self, sums: Mapping[Hashable, int]) -> Mapping[Hashable, int]:
        # Read before anything is counted: an error then still means that nothing was.
        unchanged = [key for key, by in sums.items() if not by]
        found = super().values(unchanged) if unchanged else {}
        deltas = tuple(Delta(key, by) for key, by in sums.items() if by)
        applied = super().apply(Batch(deltas)) if deltas else {}
        return {**{key: found.get(key, 0) for key in unchanged}, **applied}

    def _serve_each(self, calls: list[_Call]) -> None:
        """Nothing of the sum was counted: find out whom the error concerns."""
        for call in calls:
            try:
                call.value = super().apply(Batch((call.delta,)))[call.delta.key]
            except (CounterError, Error) as error:
                call.error = error


def _answer_all(calls: list[_Call], end: int | None, by: int) -> None:
    """Give each call of one counter the value that it would have had alone, in an order of all.

    The order is that of arrival, but none goes beyond the range on the way: where one does not
    fit another one does, since both ends are within it.
    """
    if end is None:
        for call in calls:
            call.error = Contention(key=str(call.delta.key), attempts=1)
        return
    low, high = INT8
    value, rest = end - by, list(calls)
    reach = sum(abs(call.delta.by) for call in calls)
    if low + reach <= value <= high - reach:
        # Nearly always: regardless of the order, none comes near the range.
        for call in rest:
            value = call.value = value + call.delta.by
        return
    while rest:
        call = next(call for call in rest if low <= value + call.delta.by <= high)
        rest.remove(call)
        value += call.delta.by
        call.value = value
