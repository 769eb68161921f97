"""Combining: threads that count at the same moment are served by one of them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterable, Mapping
from contextlib import AbstractContextManager
from typing import ClassVar

from django_counters.exceptions import Contention, OutcomeUnknown
from django_counters.strategies.base import Strategy
from django_counters.types import INT8, UNBOUNDED, Batch, Delta, Reading


class _Call:
    """One waiting increment, and in the end its value or its error."""

    __slots__ = ("called", "delta", "error", "turn", "value")

    def __init__(self, delta: Delta) -> None:
        self.delta = delta
        self.called = False
        self.value: int | None = None
        self.error: BaseException | None = None
        # A bare lock: an Event takes as long to make and to set as a third of an increment.
        self.turn = threading.Lock()
        self.turn.acquire()

    def wake(self) -> None:
        """Let the thread go on that waits for its turn."""
        if not self.called:
            self.called = True
            self.turn.release()


class Combining:
    """Wraps a strategy whose changes are commutative. Keeps no number, only who waits.

    Outside a transaction, the first of several threads applies the sum of all that wait in one
    statement. Each call returns after the commit, with the value that it would have had alone, in
    one order of all; an error reaches the calls that it concerns. Within a transaction, with
    bounds, and for batches, it does nothing.
    """

    name: ClassVar[str] = "exact"
    holds: ClassVar[bool] = True
    keeps_tokens: ClassVar[bool] = False
    claims_tokens: ClassVar[bool] = True
    joins: ClassVar[bool] = True
    consistencies: ClassVar[tuple[str, ...]] = ("exact",)

    def __init__(self, inner: Strategy, using: str, commits_at_once: Callable[[], bool]) -> None:
        self._inner = inner
        self._using = using
        self._commits_at_once = commits_at_once
        # Reentrant: a signal handler may count, too.
        self._lock = threading.RLock()
        self._busy = False
        self._leader = 0
        self._waiting: list[_Call] = []

    def apply(self, batch: Batch) -> Mapping[Hashable, int]:
        """Apply a batch, together with those of other threads where that is possible."""
        deltas = batch.deltas
        if len(deltas) != 1 or deltas[0].bounds != UNBOUNDED or not self._commits_at_once():
            return self._inner.apply(batch)
        thread = threading.get_ident()
        if self._leader == thread:
            # Code that runs within our own statement counts: it would wait for itself.
            return self._inner.apply(batch)
        with self._lock:
            alone = not self._busy
            if alone:
                self._busy, self._leader = True, thread
            else:
                call = _Call(deltas[0])
                self._waiting.append(call)
        if alone:
            try:
                return self._inner.apply(batch)
            finally:
                self._hand_over()
        return {call.delta.key: self._answer(call)}

    def _answer(self, call: _Call) -> int:
        """Wait for an answer, or for the turn to find it for all that wait."""
        try:
            call.turn.acquire()
        except BaseException:
            self._abandon(call)
            raise
        if call.value is None and call.error is None:
            self._lead(call)
        if call.error is not None:
            raise call.error
        assert call.value is not None
        return call.value

    def _abandon(self, call: _Call) -> None:
        """Leave the queue; somebody who was to lead it has to name another."""
        with self._lock:
            queued = call in self._waiting
            if queued:
                self._waiting.remove(call)
        if queued and call.called:
            self._hand_over()

    def _hand_over(self) -> None:
        """Let the first one that waits lead the others, or the next that comes."""
        with self._lock:
            self._leader = 0
            if self._waiting:
                self._waiting[0].wake()
            else:
                self._busy = False

    def _lead(self, own: _Call) -> None:
        with self._lock:
            calls, self._waiting = self._waiting, []
            self._leader = threading.get_ident()
        try:
            self._serve(calls)
        finally:
            for call in calls:
                if call.value is None and call.error is None:
                    # The leader was interrupted in the middle of its statement.
                    call.error = OutcomeUnknown(using=self._using)
                if call is not own:
                    call.wake()
            self._hand_over()

    def _serve(self, calls: list[_Call]) -> None:
        sums: dict[Hashable, int] = {}
        for call in calls:
            sums[call.delta.key] = sums.get(call.delta.key, 0) + call.delta.by
        try:
            present = self._apply_sums(sums)
        except OutcomeUnknown:
            for call in calls:
                call.error = OutcomeUnknown(using=self._using)
        except Exception:
            self._serve_each(calls)
        else:
            for key in sums:
                mine = [call for call in calls if call.delta.key == key]
                _answer_all(mine, present.get(key), sums[key])

    def _apply_sums(self, sums: Mapping[Hashable, int]) -> Mapping[Hashable, int]:
        # Read before anything is counted: an error then still means that nothing was.
        unchanged = [key for key, by in sums.items() if not by]
        found = self._inner.values(unchanged) if unchanged else {}
        deltas = tuple(Delta(key, by) for key, by in sums.items() if by)
        applied = self._inner.apply(Batch(deltas)) if deltas else {}
        return {**{key: found.get(key, 0) for key in unchanged}, **applied}

    def _serve_each(self, calls: list[_Call]) -> None:
        """Nothing of the sum was counted: find out whom the error concerns."""
        for call in calls:
            try:
                call.value = self._inner.apply(Batch((call.delta,)))[call.delta.key]
            except Exception as error:
                call.error = error

    def value(self, key: Hashable) -> int:
        """As the strategy within."""
        return self._inner.value(key)

    def values(
        self, keys: Iterable[Hashable], max_age: float | None = None
    ) -> Mapping[Hashable, int]:
        """As the strategy within."""
        return self._inner.values(keys, max_age)

    def all_or_nothing(self, *, own: bool = True) -> AbstractContextManager[None]:
        """As the strategy within."""
        return self._inner.all_or_nothing(own=own)

    def read(self, key: Hashable, consistency: str, max_age: float = 0.0) -> Reading:
        """As the strategy within."""
        return self._inner.read(key, consistency, max_age)


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
        # Nearly always: whatever the order, none comes near the range.
        for call in rest:
            value = call.value = value + call.delta.by
        return
    while rest:
        call = next(call for call in rest if low <= value + call.delta.by <= high)
        rest.remove(call)
        value += call.delta.by
        call.value = value
