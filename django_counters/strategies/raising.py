"""Cached counters that are raised to a number: the difference is added in Redis."""

from __future__ import annotations

from collections.abc import Hashable

from django_counters.exceptions import Contention, CounterOverflow, UnsupportedBounds
from django_counters.stores.base import LARGEST_SUM, CachedStore, Found, LandedStore, Lease
from django_counters.strategies.asking import PAUSES, Asking
from django_counters.strategies.declaring import MAX_AGE
from django_counters.strategies.steps import Pause, Steps
from django_counters.types import Peak, Raised

# How old a known total may be, in milliseconds: a change in another way is missed for no longer.
_AGE = int(MAX_AGE * 1000)


class Raising:
    """Adds the difference, so that it lands once, as any increment does.

    Redis compares and adds in one step, with a total that is known there; else the database is
    asked for it, and Redis takes it if nothing was flushed meanwhile.
    """

    def __init__(self, pending: CachedStore, landed: LandedStore, asking: Asking) -> None:
        self._pending = pending
        self._landed = landed
        self._asking = asking

    def check(self, peak: Peak, strategy: str) -> None:
        """Refuse what cannot be promised, regardless of the value.

        Raises:
            UnsupportedBounds: it has a ceiling.
            CounterOverflow: the number does not fit.
        """
        label = self._landed.label(peak.key)
        if peak.bounds.ceiling is not None:
            raise UnsupportedBounds(key=label, strategy=strategy)
        low, high = self._landed.capacity
        low, high = max(low, -LARGEST_SUM), min(high, LARGEST_SUM)
        if not low <= peak.number <= high:
            raise CounterOverflow(key=label, low=low, high=high)

    def raised(self, counter: str, key: Hashable, number: int) -> Steps[Raised]:
        """Raise one counter, if its value is smaller.

        Raises:
            Contention: something was flushed each time that its total was asked for.
            RecordMissing: its record is gone.
        """
        told: tuple[Lease, int] | None = None
        for pause in PAUSES:
            found: Raised | Found = yield self._pending.maximum(counter, number, _AGE, told)
            if isinstance(found, Raised):
                return found
            told = None
            if found.asked:
                # Another one asks just now, and leaves the total here.
                yield Pause(pause)
            else:
                told = yield from self._asking.base(counter, key, found)
        raise Contention(key=self._landed.label(key), attempts=len(PAUSES))
