"""The public API: counters by key that are raised to a number."""

from __future__ import annotations

from django_counters.managers.actors import ActorManager
from django_counters.managers.rows import Row
from django_counters.twins import alters_data, twin
from django_counters.values import Result
from django_counters.write import maximum
from django_counters.write.change import named


class MaximumManager(ActorManager[Row]):
    """Keeps the largest number that was seen."""

    @alters_data
    def maximum(self, key: str, number: int, *, using: str | None = None) -> Result:
        """Set a counter to ``number`` if its value is smaller, in one atomic step.

        Repeated, it changes nothing, so it needs no token; of several calls the largest number
        counts, in any order. A counter that was never counted is zero. Where the namespace is exact
        it is part of the caller's transaction, and where the value is large enough nothing is
        written and no row is held. Where it is cached, it adds the difference in Redis, within a
        transaction when that commits. A total that was changed in another way than by counting may
        be missed for 5 seconds. While Redis is away it is refused, with each ``ON_REDIS_DOWN``:
        repeat it later. Signals hear what was added, if anything was. In a block of `collect` it is
        made at once, after what is owed to the counter.

        Returns:
            The value afterwards: ``number``, or what was larger. `Unknown` of a cached counter in
            a transaction.

        Raises:
            InvalidDelta: the number is no integer of 64 bits.
            UnsupportedMaximum: the namespace is ``sharded`` or a ``ledger``, is counted by period,
                or counts once for each actor.
            CeilingExceeded: it is above the ceiling, and the value is smaller.
            CounterOverflow: the namespace is cached, and a number is 2**53 or more.
            Contention: the total of a cached counter changed again and again meanwhile.
            InvalidKey, CounterUnavailable, ReadOnlyDatabase, OutcomeUnknown: as for `increment`.
        """
        return maximum.maximum(named(key, using or self._db), number)

    amaximum = twin(maximum)
