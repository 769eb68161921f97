"""The public API: counters by key."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from datetime import datetime
from typing import Unpack
from uuid import UUID

from asgiref.sync import sync_to_async

from django_counters.managers.maxima import MaximumManager
from django_counters.managers.rows import Row
from django_counters.projections.event import (
    PLAIN,
    CountOptions,
    Event,
    OnceOptions,
    Tags,
    Who,
    event_of,
)
from django_counters.read import values
from django_counters.read.values import ReadOptions
from django_counters.tokens import Token, check_token, optional_token
from django_counters.types import UNBOUNDED, Reading, bounds_of_call, check_integer
from django_counters.values import CountedMany, Result
from django_counters.write import pipeline
from django_counters.write.change import Change, named
from django_counters.write.native import is_native


class CounterManager(MaximumManager[Row]):
    """Counts by key. Every change joins the caller's transaction and rolls back with it.

    ``using`` names a database; without it the manager's own (``db_manager``) is used, else the
    router decides. Errors other than `OutcomeUnknown` mean that nothing was counted.
    """

    def increment(
        self,
        key: str,
        by: int = 1,
        *,
        floor: int | None = None,
        ceiling: int | None = None,
        shard_key: object = None,
        token: str | UUID | Token | None = None,
        immediately: bool = False,
        at: datetime | None = None,
        tags: Tags | None = None,
        who: Who = None,
        using: str | None = None,
    ) -> Result:
        """Add ``by`` to a counter, in one statement.

        A counter that was never counted starts at zero. ``floor`` and ``ceiling`` narrow what the
        namespace declares; only the bound that the value moves towards is asked. Linearizable
        where the namespace is exact: a concurrent change waits for this transaction and then
        starts from its result. Where it is sharded no call waits, the value is that of this
        statement's snapshot and ``by``, and ``shard_key`` (a user, a request) always leads to the
        same shard. Where it is a ledger no call waits.

        With a ``token`` (a UUIDv7, or any text up to 255 characters) the change counts once,
        however often and by whomever the call is repeated: a repeated call returns what the first
        one returned, and its ``replayed`` is true. A UUIDv7 is known for as long as its time is
        within the window of 48 hours, a text for 48 hours from its first use.

        Where the namespace is cached the change is made in Redis, in one round trip, and within a
        transaction after it has committed: a change that is rolled back is never made, and one of
        a process that ends between the commit and the send is lost. With
        ``immediately`` it is made at once, and stays. A token has to be a UUIDv7 of the last 24
        hours.

        ``at`` says when it happened (now, where it is not given) and ``tags`` what it is counted
        by, where the namespace declares ``PER`` and ``TAGS``: the total and the cell of each period
        change together or not at all. An event too long ago for one period is counted in those that
        are kept for longer.

        Where the namespace has a ``BUFFER`` the change waits in this process, within a transaction
        from its commit on; one with a token, or with ``immediately``, goes past the buffer.

        Adding zero changes nothing and sends no signal. It returns the present value, or `Unknown`
        for a cached counter and one with a buffer, and uses up a token. Bounds, tags and ``at``
        aren't checked.

        Returns:
            The new value, `Counted`, which is an int. `Unknown` where it is not known: in a ledger,
            in a collector, in a buffer, and of a cached counter in a transaction or without its
            Redis.

        Raises:
            InvalidKey, InvalidDelta, InvalidToken: an argument isn't a key, an integer, a token.
            InsufficientCount, CeilingExceeded: the value would cross its floor, or its ceiling.
            UnsupportedBounds: the namespace is not exact, and it is not the floor that a sharded
                one declares; or it has a buffer.
            UnsupportedOption: ``immediately``, and the namespace is not cached and has no buffer.
            UnsupportedToken: the namespace is cached, and the token is no UUIDv7.
            InvalidTags: a tag is not declared, or its value is no text of at most 60 characters.
            InvalidMoment: ``at`` is more than 5 minutes ahead, or before all that is kept.
            UnsupportedSeries: ``at`` or ``tags``, and the namespace declares no ``PER``.
            CounterOverflow: the value would leave the range of 64 bits.
            TokenConflict: the token was used before, for another counter or another delta.
            TokenExpired: the UUIDv7 is of a time outside the window.
            RetryTransaction: under REPEATABLE READ, the token was used by a concurrent transaction.
            PartitionMissing, LedgerFenced: the ledger needs its upkeep.
            CounterUnavailable, ReadOnlyDatabase: the database or Redis is away, or not writable.
            OutcomeUnknown: the answer was lost, outside a transaction: counted or not.
        """
        delta = check_integer(by)
        bounds = bounds_of_call(floor, ceiling)
        event = PLAIN if at is None and tags is None and who is None else Event(at, tags, who)
        once = None if token is None else check_token(token)
        ref = named(key, using or self._db)
        return pipeline.change(
            Change(ref, delta, bounds, shard_key, once, immediately, True, event)
        )

    def decrement(self, key: str, by: int = 1, **options: Unpack[CountOptions]) -> Result:
        """Subtract ``by`` from a counter; see `increment`.

        With a floor, two buyers of the last unit cannot both get it.
        """
        return self.increment(key, -check_integer(by), **options)

    def increment_many(
        self,
        deltas: Mapping[str, int],
        *,
        token: str | UUID | Token | None = None,
        at: datetime | None = None,
        tags: Tags | None = None,
        who: Who = None,
        using: str | None = None,
    ) -> CountedMany:
        """Add to many counters, all or none, and return what is known of each, in one statement.

        Rows are locked in the order of their keys, so two such calls cannot deadlock. A savepoint
        surrounds the statement where a bound has to hold. With a ``token`` all of it counts once;
        a repeated call returns what the first one returned. Cached counters are changed in one
        round trip to Redis, all or none unless it is a cluster, and take no token here.

        Raises:
            InsufficientCount, CeilingExceeded: ``shortfalls`` lists every key that was refused.
            CounterOverflow: a sum does not fit. On PostgreSQL a surrounding transaction is then
                broken, as after any database error: put the call into ``atomic()`` to go on.
        """
        return pipeline.change_many(deltas, using or self._db, token, event_of(at, tags, who))

    def decrement_many(
        self, deltas: Mapping[str, int], **options: Unpack[OnceOptions]
    ) -> CountedMany:
        """Subtract from many counters, all or none (a cart); see `increment_many`."""
        return self.increment_many(pipeline.negated(deltas), **options)

    def value(self, key: str, **options: Unpack[ReadOptions]) -> int:
        """The value of a counter; zero if it was never counted. See `values_of`.

        Raises:
            CounterUnavailable: the database, or the Redis of a cached counter, cannot be asked.
        """
        options["using"] = options.get("using") or self._db
        return values.value_of(key, **options)

    def values_of(
        self,
        keys: Iterable[str],
        *,
        consistency: str = "exact",
        max_age: float | None = None,
        using: str | None = None,
    ) -> dict[str, int]:
        """The values of many counters, in one query, and for cached ones one round trip to Redis.

        Those of one strategy are of one moment. ``consistency="cached"`` answers from Redis alone
        where the totals there are at most ``max_age`` seconds old (what the namespace declares, 5),
        and without Redis from what has landed in the database. Others are read exactly.
        """
        return values.values_of(keys, using or self._db, consistency, max_age)

    def collect(self, *, using: str | None = None) -> AbstractContextManager[None]:
        """A block whose increments are merged by key and applied in one statement at its end.

        The block is a transaction, or a savepoint in the caller's. Its changes are applied at its
        end, in the order of the keys. So rows are locked briefly, and two such blocks cannot
        deadlock. Changes that a floor or ceiling concerns are made at once. An increment that is
        collected returns `Unknown`; reads within the block see it. A savepoint that is rolled back
        takes its increments with it, and so does a block that ends with an error. A block within is
        applied with the outer one. Counter fields are not collected.

        Raises:
            CounterOverflow: a sum does not fit, at the end of the block.
        """
        return pipeline.collect(using or self._db)

    def acollect(self, *, using: str | None = None) -> AbstractAsyncContextManager[None]:
        """`collect` for async code, where no transaction is open: applied after the block.

        Changes that a floor or ceiling concerns are committed at once, even if the block fails. A
        transaction of synchronous code within counts by itself.
        """
        return pipeline.acollect(using or self._db)

    def read(
        self,
        key: str,
        *,
        consistency: str = "exact",
        max_age: float | None = None,
        using: str | None = None,
    ) -> Reading:
        """The value of a counter, and its parts.

        ``consistency="cached"``, for cached counters: from Redis alone where the total there is not
        older than ``max_age`` seconds. Where Redis is away, only flushed increments, and the
        reading says so: its consistency is ``"landed"``.

        Raises:
            UnsupportedConsistency: the counter's strategy does not offer ``consistency``.
            CounterUnavailable: an exact value cannot be told.
        """
        return values.read(key, using or self._db, consistency, max_age)

    async def aincrement(
        self,
        key: str,
        by: int = 1,
        *,
        floor: int | None = None,
        ceiling: int | None = None,
        shard_key: object = None,
        token: str | UUID | Token | None = None,
        immediately: bool = False,
        at: datetime | None = None,
        tags: Tags | None = None,
        who: Who = None,
        using: str | None = None,
    ) -> Result:
        """`increment` for async code; as atomic as its twin."""
        delta = check_integer(by)
        bounds = bounds_of_call(floor, ceiling)
        event = event_of(at, tags, who)
        once, database = optional_token(token), using or self._db
        ref = named(key, database)
        change = Change(ref, delta, bounds, shard_key, once, immediately, True, event)
        if delta and bounds is UNBOUNDED:
            if ref.intake is not None and once is None and not immediately:
                waits = ref.intake.akeep(change)
                if waits is not None:
                    return waits
            if is_native([key], database, writes=True):
                return await pipeline.achange(change)
        return await sync_to_async(pipeline.change)(change)

    async def adecrement(self, key: str, by: int = 1, **options: Unpack[CountOptions]) -> Result:
        """`decrement` for async code; as atomic as its twin."""
        return await self.aincrement(key, -check_integer(by), **options)

    async def aincrement_many(
        self,
        deltas: Mapping[str, int],
        *,
        token: str | UUID | Token | None = None,
        at: datetime | None = None,
        tags: Tags | None = None,
        who: Who = None,
        using: str | None = None,
    ) -> CountedMany:
        """`increment_many` for async code."""
        event, database = event_of(at, tags, who), using or self._db
        if token is None and is_native(deltas, database, writes=True):
            return await pipeline.achange_many(deltas, database, event)
        return await sync_to_async(pipeline.change_many)(deltas, database, token, event)

    async def adecrement_many(
        self, deltas: Mapping[str, int], **options: Unpack[OnceOptions]
    ) -> CountedMany:
        """`decrement_many` for async code."""
        return await self.aincrement_many(pipeline.negated(deltas), **options)

    async def avalue(self, key: str, **options: Unpack[ReadOptions]) -> int:
        """`value` for async code."""
        options["using"] = using = options.get("using") or self._db
        if is_native([key], using, writes=False):
            return (await values.avalues_of([key], **options))[key]
        return await sync_to_async(self.value)(key, **options)

    async def avalues_of(
        self, keys: Iterable[str], **options: Unpack[ReadOptions]
    ) -> dict[str, int]:
        """`values_of` for async code."""
        options["using"] = using = options.get("using") or self._db
        names = keys if isinstance(keys, str) else list(keys)
        if is_native(names, using, writes=False):
            return await values.avalues_of(names, **options)
        return await sync_to_async(self.values_of)(names, **options)

    async def aread(self, key: str, **options: Unpack[ReadOptions]) -> Reading:
        """`read` for async code."""
        options["using"] = using = options.get("using") or self._db
        if is_native([key], using, writes=False):
            return await values.aread(key, **options)
        return await sync_to_async(self.read)(key, **options)
