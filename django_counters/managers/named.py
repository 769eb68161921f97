"""The public API: counters by key."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from datetime import datetime
from typing import TYPE_CHECKING, Unpack
from uuid import UUID

from asgiref.sync import sync_to_async

from django_counters import reading
from django_counters.adjustments import STEP, ResetOptions
from django_counters.adjustments.models import CounterAdjustment
from django_counters.event import PLAIN, CountOptions, Event, OnceOptions, Tags, Who, event_of
from django_counters.managers.rows import Row, RowsManager
from django_counters.reading import Explanation, ReadOptions
from django_counters.registry import registry
from django_counters.tokens import Token, check_token, optional_token
from django_counters.twins import alters_data, twin
from django_counters.types import (
    UNBOUNDED,
    CountedMany,
    Reading,
    Result,
    bounds_of_call,
    check_integer,
    check_key,
)
from django_counters.write import pipeline
from django_counters.write.changes import Change, named
from django_counters.write.collector import is_native, within_synchronous_code

if TYPE_CHECKING:
    from django_counters.adjustments.cases import AdjustedMany, Progress


class CounterManager(RowsManager[Row]):
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

        If an app takes the namespace's changes before they are counted (its *intake*), the change
        waits there. Pass ``immediately`` to count it now.

        Adding zero changes nothing and sends no signal. It returns the present value, or `Unknown`
        for a cached counter and one with an intake, and uses up a token. Bounds, tags and ``at``
        aren't checked.

        Returns:
            The new value, `Counted`, which is an int. `Unknown` where it is not known: in a ledger,
            in a collector, in an intake, and of a cached counter in a transaction or without its
            Redis.

        Raises:
            InvalidKey, InvalidDelta, InvalidToken: an argument isn't a key, an integer, a token.
            InsufficientCount, CeilingExceeded: the value would cross its floor, or its ceiling.
            UnsupportedBounds: the namespace is not exact, and it is not the floor that a sharded
                one declares; or it has an intake.
            UnsupportedOption: ``immediately``, and the namespace is not cached and has no intake.
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
        return pipeline.maximum(named(key, using or self._db), number)

    amaximum = twin(maximum)

    def value(self, key: str, **options: Unpack[ReadOptions]) -> int:
        """The value of a counter; zero if it was never counted. See `values_of`.

        Raises:
            CounterUnavailable: the database, or the Redis of a cached counter, cannot be asked.
        """
        options["using"] = options.get("using") or self._db
        return reading.value_of(key, **options)

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
        return reading.values_of(keys, using or self._db, consistency, max_age)

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
        return reading.read(key, using or self._db, consistency, max_age)

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
        delta, once, event = check_integer(by), optional_token(token), event_of(at, tags, who)
        database = using or self._db
        if delta and bounds_of_call(floor, ceiling) is UNBOUNDED and not within_synchronous_code():
            policy = registry.policy(check_key(key))
            conditional = policy.measure is not None and policy.measure.condition is not None
            past = once is not None or immediately or conditional
            if policy.intake is not None and not past:
                ref = named(key, database)
                waits = policy.intake.akeep(Change(ref, delta, route=shard_key, event=event))
                if waits is not None:
                    return waits
            if is_native([key], database, writes=True):
                ref = named(key, database)
                return await pipeline.achange(
                    Change(ref, delta, UNBOUNDED, shard_key, once, immediately, True, event)
                )
        # A router may keep its state in the caller's thread, so that thread chooses the database.
        return await sync_to_async(self.increment)(
            key,
            delta,
            floor=floor,
            ceiling=ceiling,
            shard_key=shard_key,
            token=token,
            immediately=immediately,
            at=at,
            tags=tags,
            who=who,
            using=using,
        )

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
        database = using or self._db
        if token is None and is_native(deltas, database, writes=True):
            return await pipeline.achange_many(deltas, database, event_of(at, tags, who))
        return await sync_to_async(self.increment_many)(
            deltas, token=token, at=at, tags=tags, who=who, using=using
        )

    async def adecrement_many(
        self, deltas: Mapping[str, int], **options: Unpack[OnceOptions]
    ) -> CountedMany:
        """`decrement_many` for async code."""
        return await self.aincrement_many(pipeline.negated(deltas), **options)

    async def avalue(self, key: str, **options: Unpack[ReadOptions]) -> int:
        """`value` for async code."""
        options["using"] = using = options.get("using") or self._db
        if is_native([key], using, writes=False):
            return (await reading.avalues_of([key], **options))[key]
        return await sync_to_async(self.value)(key, **options)

    async def avalues_of(
        self, keys: Iterable[str], **options: Unpack[ReadOptions]
    ) -> dict[str, int]:
        """`values_of` for async code."""
        options["using"] = using = options.get("using") or self._db
        names = keys if isinstance(keys, str) else list(keys)
        if is_native(names, using, writes=False):
            return await reading.avalues_of(names, **options)
        return await sync_to_async(self.values_of)(names, **options)

    async def aread(self, key: str, **options: Unpack[ReadOptions]) -> Reading:
        """`read` for async code."""
        options["using"] = using = options.get("using") or self._db
        if is_native([key], using, writes=False):
            return await reading.aread(key, **options)
        return await sync_to_async(self.read)(key, **options)

    # The ledger.

    def value_at(self, key: str, moment: datetime, *, using: str | None = None) -> int:
        """The value that a counter of the ledger had at a moment.

        It is what the value is now, without the entries whose token is later than the moment. What
        did not come through the ledger counts as if it had always been there.

        Raises:
            UnsupportedHistory: the namespace is no ledger, and the counter has no entry.
            HistoryNotKept: entries since then are dropped.
        """
        return reading.value_at(key, moment, using or self._db)

    def explain(  # type: ignore[override]
        self, key: str, *, last: int = 10, using: str | None = None
    ) -> Explanation:
        """The parts of a value, which sum to it, and the last entries, in one statement.

        Django's own ``explain()``, of a query, is that of a queryset: ``objects.all().explain()``.
        """
        return reading.explain(key, last, using or self._db)

    avalue_at = twin(value_at)

    async def aexplain(  # type: ignore[override]
        self, key: str, *, last: int = 10, using: str | None = None
    ) -> Explanation:
        """`explain` for async code."""
        return await sync_to_async(self.explain)(key, last=last, using=using)

    # Corrections, which are kept with who made them and why.

    @alters_data
    def adjust(
        self,
        key: str,
        *,
        to: int | None = None,
        by: int | None = None,
        expected: int | None = None,
        reason: str,
        actor: object,
        approver: object = None,
        case: str = "",
        request_id: str = "",
        token: str | UUID | Token | None = None,
        allow_below_floor: bool = False,
        using: str | None = None,
    ) -> CounterAdjustment:
        """Set a counter right, and keep for ever what it was, who did it and why.

        Either ``to`` gives the new value or ``by`` the change. In one transaction (the caller's, if
        there is one) the exact value is read, the difference is added to the total, and an
        immutable `CounterAdjustment` is written. In a ledger the difference is an entry of its own
        kind. Increments are never removed: those that others make meanwhile come on top, and those
        that wait in shards, in the ledger or in Redis are part of the value and stay there.

        Adjustments of all counters come one after the other, so each one meets the value that the
        one before has left. Another one waits until this transaction ends: adjust in short
        transactions, and before counting in the same one.

        Args:
            key: the counter.
            to: the new value.
            by: the change.
            expected: the value that the decision was made on; another one is refused.
            reason: why, for readers of the audit. Up to 1,000 characters.
            actor: a user, or the name of a script or job. Kept as a text.
            approver: who else has agreed, where ``APPROVE_ABOVE`` asks for a second person.
            case: a reference, such as the number of a ticket.
            request_id: which request of a client it was.
            token: adjust once, however often the call is repeated: a UUIDv7 or any text, for 48
                hours, as for increments. A repeated call returns the first adjustment; its
                ``replayed`` is true.
            allow_below_floor: whether the value may end below the floor of the namespace.
            using: the database.

        Raises:
            ValueChanged: the value is not the expected one; the error has it.
            ApprovalRequired: it is more than one person alone may do, and it is not approved.
            InsufficientCount, CeilingExceeded, CounterOverflow: the value may not become that.
            InvalidAdjustment: the reason or the actor is missing, or both or none of ``to`` and
                ``by`` are given, or the approver is the actor.
            InvalidKey, InvalidDelta, InvalidToken, TokenConflict, TokenExpired: as `increment`.
            CounterUnavailable: the database, or the Redis of a cached counter, cannot be asked.
            RetryTransaction: under REPEATABLE READ, another transaction has counted or adjusted
                since.
            OutcomeUnknown: the answer was lost, outside a transaction: counted or not.
        """
        from django_counters.adjustments.adjustment import adjust

        return adjust(
            named(key, using or self._db),
            to=to,
            by=by,
            expected=expected,
            reason=reason,
            actor=actor,
            approver=approver,
            case=case,
            request_id=request_id,
            token=token,
            allow_below_floor=allow_below_floor,
        )

    @alters_data
    def reset(self, key: str, **options: Unpack[ResetOptions]) -> CounterAdjustment:
        """Set a counter to zero, and keep for ever what it was, who did it and why.

        As ``adjust(key, to=0)``, with its arguments, its errors and its promises. ``before`` of the
        adjustment is the value until then, and ``-delta`` the same number; increments that others
        make meanwhile come on top. A counter that is zero already gets a row, too, with a ``delta``
        of zero. A ceiling below zero refuses, and so does a floor above it unless
        ``allow_below_floor``.
        """
        return self.adjust(key, to=0, **options)

    @alters_data
    def adjust_many(
        self,
        *,
        to: Mapping[str, int] | None = None,
        by: Mapping[str, int] | None = None,
        reason: str,
        actor: object,
        case: str,
        approver: object = None,
        request_id: str = "",
        allow_below_floor: bool = False,
        dry_run: bool = False,
        step: int = STEP,
        progress: Progress | None = None,
        using: str | None = None,
    ) -> AdjustedMany:
        """Adjust many counters for one reason, ``step`` of them in a transaction.

        Each is adjusted at most once for a ``case``: the same call goes on where it was
        interrupted, also in another process. A counter that is refused (by its floor, by
        ``APPROVE_ABOVE``, because the case has adjusted it by another number) is reported, and the
        others go on.

        Args:
            to: the new value of each counter.
            by: or the change of each.
            dry_run: say what would be done, and do nothing.
            step: how many counters a transaction adjusts.
            progress: called with the report so far, after each transaction.

        Raises:
            InvalidAdjustment, InvalidKey, InvalidDelta: something is wrong with what is asked;
                nothing was changed.
            CounterUnavailable, OutcomeUnknown, RetryTransaction: the adjustments made until then
                stay. Repeat the call.
        """
        from django_counters.adjustments.cases import adjust_many, given

        return adjust_many(
            given(to, by, lambda key: named(key, using or self._db)),
            "by" if to is None else "to",
            reason=reason,
            actor=actor,
            case=case,
            approver=approver,
            request_id=request_id,
            allow_below_floor=allow_below_floor,
            dry_run=dry_run,
            step=step,
            progress=progress,
        )

    @alters_data
    def forget(self, key: str, *, using: str | None = None) -> int:
        """Set a counter to zero, as if it had never been counted, and return its last value.

        Right for every strategy, in one transaction (the caller's, if there is one). Pending
        increments, periods, ranks, distinct actors, actors, occurrences, recorded totals and
        rows of other apps go with it. Concurrent increments stay. The row goes, unless something is
        still to be folded into it. Entries of a ledger, tokens and adjustments are kept. It checks
        no bounds, and doesn't record who did it: people adjust, with ``to=0``.

        Raises:
            InvalidKey: the key is none.
            CounterUnavailable: the database, or the Redis of a cached counter, cannot be asked.
            RetryTransaction: under REPEATABLE READ, another transaction has counted since.
            OutcomeUnknown: the connection was lost, outside a transaction, before the answer.
        """
        from django_counters.adjustments.adjustment import forget

        return forget(key, using or self._db)

    aforget = twin(forget)
    aadjust = twin(adjust)
    areset = twin(reset)
    aadjust_many = twin(adjust_many)
