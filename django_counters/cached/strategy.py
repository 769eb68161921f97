"""The cached strategy: increments wait in Redis, and a flush lands them in the totals, once."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar
from uuid import UUID

from django.db import Error
from django.utils.asyncio import async_unsafe
from django.utils.module_loading import import_string

from django_counters import clock, errors
from django_counters.cached import store
from django_counters.cached.asking import PAUSES, Asking, Pause, Steps, arun, run
from django_counters.cached.sources import pending_of
from django_counters.effects import projector
from django_counters.options import Option, choice, seconds
from django_counters.redis.addresses import TIMEOUT
from django_counters.stores.base import PendingField, PendingParts
from django_counters.stores.sql.dialects import Table
from django_counters.stores.sql.incidents import record_unsent
from django_counters.stores.sql.outbox import SqlLanded
from django_counters.stores.sql.totals import SqlTotals
from django_counters.strategies import exact
from django_counters.strategies.base import AT_ONCE, Claimed, Heard, Outside, Strategy
from django_counters.strategies.declaring import MAX_AGE, Capabilities, Declaration, Shared
from django_counters.tokens import refuse_beyond
from django_counters.types import (
    Batch,
    Delta,
    NewValues,
    Peak,
    Raised,
    Reading,
    Sums,
    Unknown,
    counter_of,
    deltas_of,
    result_of,
    sums_of,
)

if TYPE_CHECKING:
    from django_counters.cached.pending import RedisPending

# How old a known total may be, in milliseconds: a change in another way is missed for no longer.
_AGE = int(MAX_AGE * 1000)


class Raising:
    """Adds the difference, so that it lands once, as any increment does.

    Redis compares and adds in one step, with a total that is known there; else the database is
    asked for it, and Redis takes it if nothing was flushed meanwhile.
    """

    def __init__(self, pending: RedisPending, landed: SqlLanded, asking: Asking) -> None:
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
            raise errors.UnsupportedBounds(key=label, strategy=strategy)
        low, high = self._landed.capacity
        low, high = max(low, -store.LARGEST_SUM), min(high, store.LARGEST_SUM)
        if not low <= peak.number <= high:
            raise errors.CounterOverflow(key=label, low=low, high=high)

    def raised(self, counter: str, key: Hashable, number: int) -> Steps[Raised]:
        """Raise one counter, if its value is smaller.

        Raises:
            Contention: something was flushed each time that its total was asked for.
            RecordMissing: its record is gone.
        """
        told: tuple[store.Lease, int] | None = None
        for pause in PAUSES:
            found: Raised | store.CachedState = yield self._pending.maximum(
                counter, number, _AGE, told
            )
            if isinstance(found, Raised):
                return found
            told = None
            if found.asked:
                # Another one asks just now, and leaves the total here.
                yield Pause(pause)
            else:
                told = yield from self._asking.base(counter, key, found)
        raise errors.Contention(key=self._landed.label(key), attempts=len(PAUSES))


# Where increments go while Redis cannot be reached.
_DETOURS = {
    "ledger": "django_counters.ledger.strategy.DECLARED",
    "exact": "django_counters.strategies.exact.EXACT",
}

# How old a known total may be where a change returns its new value. It concerns only changes of the
# total in other ways: increments of this strategy are always part of the value.
RETURNED_AGE = 60_000
# A token has to reach the database while its window there is open: 48 hours, and one ahead. The
# margin is for a flush that is late, and for clocks of servers that differ.
TOKEN_WINDOW, AHEAD = timedelta(hours=24), timedelta(minutes=30)
# What Django says of synchronous code in an event loop; here, before anything is counted.
_ASYNC = "You cannot call this from an async context - use the method that begins with an a."
VALUE = "value"  # the word for changes that return their new value
Unsent = Callable[[Mapping[str, int], Exception, str], None]
# How many counters are asked for in one round trip: a script keeps the server from other work.
_PAGE = 2000
# How many fields with actors one round trip takes away.
_SETS = 100


class Cached(Outside):
    """Counted in Redis in one round trip; inside a transaction, when it commits.

    Nothing reaches the database twice, and all that was acknowledged and that Redis kept arrives.
    An exact read asks Redis, then the database; a cached one asks Redis alone. A floor or ceiling
    cannot hold. ``spill``: where increments go while Redis cannot be reached; None: nowhere.
    ``unsent`` is told of increments that were committed, and were not sent, or perhaps not.
    ``returns``: whether a change asks for its new value, which may take a query of the database.
    """

    name: ClassVar[str] = "cached"
    holds: ClassVar[bool] = False
    keeps_tokens: ClassVar[bool] = True
    claims_tokens: ClassVar[bool] = False
    consistencies: ClassVar[tuple[str, ...]] = ("exact", "cached")

    def __init__(
        self,
        pending: RedisPending,
        landed: SqlLanded,
        spill: Strategy | None,
        unsent: Unsent,
        label: str = "",
        returns: str = VALUE,
    ) -> None:
        self._pending = pending
        self._landed = landed
        self._spill = spill
        self._unsent = unsent
        self._label = label
        self._age = RETURNED_AGE if returns == VALUE else store.NO_TOTALS
        # Whether the total was known at the last change, of whichever counter: the next one's
        # nearly always is then. Only the time of a call depends on it.
        self._shortens = False
        self._asking = Asking(pending, landed)
        self._raising = Raising(pending, landed, self._asking)

    @async_unsafe(_ASYNC)
    def apply(self, batch: Batch) -> NewValues:
        """Count in one round trip, or when the caller's transaction commits."""
        self._check(batch)
        if not batch.immediately and self._landed.waits_for_commit():
            return self._postponed(batch)
        return run(self._count(batch, self._age), self._pending.send)

    async def aapply(self, batch: Batch) -> NewValues:
        """`apply` for async code, where no transaction is open."""
        self._check(batch)
        return await arun(self._count(batch, self._age), self._pending.asend)

    @async_unsafe(_ASYNC)
    def maximum(self, peak: Peak, heard: Heard) -> Raised | Unknown:
        """Add in Redis what the value lacks of a number; see `Raising`.

        Within a transaction when it commits. While Redis is away nothing is raised elsewhere:
        the amount in Redis is not known there, so the value could become larger than any number.
        """
        self._raising.check(peak, self.name)
        if not self._landed.waits_for_commit():
            return self._raise(peak)

        # Django logs the name of a callback that fails, and a partial has none.
        def raise_committed() -> None:
            heard(self._raise_committed(peak))

        self._landed.call_after_commit(raise_committed)
        return Unknown(self._landed.label(peak.key), Unknown.COMMIT)

    def _raise(self, peak: Peak) -> Raised:
        counter = counter_of(self._label, peak.key)
        steps = self._raising.raised(counter, peak.key, peak.number)
        return run(steps, self._pending.send)

    def _raise_committed(self, peak: Peak) -> Raised:
        """The caller has committed, and gets no error."""
        try:
            return self._raise(peak)
        except (errors.CounterError, Error) as error:
            self._unsent({self._landed.label(peak.key): peak.number}, error, "maxima")
            raise

    def value(self, key: Hashable) -> int:
        """Return one exact value; zero if there is none."""
        return self.values([key]).get(key, 0)

    @async_unsafe(_ASYNC)
    def values(
        self, keys: Iterable[Hashable], max_age: float | None = None
    ) -> Mapping[Hashable, int]:
        """Return values; exact ones, or those with totals that are ``max_age`` seconds old."""
        seen = run(self._values(list(keys), max_age), self._pending.send)
        return {key: found.total + found.pending for key, found in seen.items()}

    async def avalues(
        self, keys: Iterable[Hashable], max_age: float | None = None
    ) -> Mapping[Hashable, int]:
        """`values` for async code."""
        seen = await arun(self._values(list(keys), max_age), self._pending.asend)
        return {key: found.total + found.pending for key, found in seen.items()}

    @async_unsafe(_ASYNC)
    def read(self, key: Hashable, consistency: str, max_age: float) -> Reading:
        """Return one value and the known details of it; see `consistencies`."""
        return run(self._read(key, consistency, max_age), self._pending.send)

    async def aread(self, key: Hashable, consistency: str, max_age: float) -> Reading:
        """`read` for async code."""
        return await arun(self._read(key, consistency, max_age), self._pending.asend)

    @async_unsafe(_ASYNC)
    def readings(self, keys: Iterable[Hashable], max_age: float) -> Mapping[Hashable, Reading]:
        """Return values and the known details of each, of up to 2,000 keys, in one round trip.

        Their totals are ``max_age`` seconds old; without Redis they are what has landed.
        """
        return run(self._readings(list(keys), max_age), self._pending.send)

    def waits(self, keys: Iterable[Hashable]) -> Mapping[Hashable, Sequence[tuple[str, int]]]:
        """The amount that waits in Redis for counters, in each generation; one round trip."""
        counters = self._counters(keys)
        found: Mapping[str, store.CachedState] = self._pending.send(
            self._pending.look(counters, store.NO_TOTALS)
        )
        return {counters[counter]: seen.waits for counter, seen in found.items()}

    @property
    def source(self) -> str:
        """The name of this Redis in the database."""
        return self._pending.source

    def landed_among(self, generations: Sequence[str]) -> frozenset[str]:
        """Which of these generations have landed."""
        return self._landed.read_landed((), generations)[1]

    def parts(self, key: Hashable) -> PendingParts:
        """What waits in Redis for a counter and for its cells, of one moment.

        Exact where nothing of the counter can land meanwhile.
        """
        counter = counter_of(self._label, key)
        page: PendingParts = self._pending.send(self._pending.parts(counter))
        amounts, sets = [*page.amounts], [*page.sets]
        while page.rest:
            page = self._pending.send(self._pending.parts(counter, page))
            amounts += page.amounts
            sets += page.sets
        landed = self.landed_among(sorted({generation for generation, *_ in amounts}))
        return PendingParts([one for one in amounts if one[0] not in landed], sets)

    def discard_sets(self, key: Hashable, sets: Sequence[PendingField]) -> None:
        """Take the actors of a forgotten counter out of Redis, once that is committed.

        A flush still lands a generation that it has read before.
        """
        counter = counter_of(self._label, key)
        for start in range(0, len(sets), _SETS):
            page = sets[start : start + _SETS]
            self._pending.send(self._pending.discard_sets(counter, page))

    def forget(self, keys: Iterable[Hashable]) -> None:
        """Let Redis forget totals that were changed in another way, once that is committed.

        Where it does not learn of it, a cached read may be wrong for as long as a total may be old.
        """
        self._pending.send(self._pending.forget(self._counters(keys)))

    def discard(self, keys: Sequence[Hashable], *, cells: bool = False) -> None:
        """Take away what waits for records that are deleted, once that is committed.

        A flush still lands a generation that it has read before. Its record is gone then, or new.
        """
        for start in range(0, len(keys), _PAGE):
            page = self._counters(keys[start : start + _PAGE])
            for search in self._pending.send(self._pending.discard(page)):
                left: store.CellSearch | None = search if cells else None
                while left:
                    left = self._pending.send(self._pending.discard_cells(left))

    def all_or_nothing(self, *, own: bool = True) -> AbstractContextManager[None]:
        """A transaction, or a savepoint in the caller's: increments are sent when it commits."""
        return self._landed.all_or_nothing(own=own)

    def _check(self, batch: Batch) -> None:
        for delta in batch.deltas:
            if delta.is_bounded:
                raise errors.UnsupportedBounds(
                    key=self._landed.label(delta.key), strategy=self.name
                )

    def _postponed(self, batch: Batch) -> NewValues:
        sums = {(delta.key, cell): by for delta in batch.deltas for cell, by in sums_of(delta)}
        if batch.token is None:
            self._landed.after_commit(sums, self._send, merge=True)
        else:
            # Redis judges it after the commit; the caller hears of it before, by this clock.
            refuse_beyond(batch.token, clock.utc(), TOKEN_WINDOW, AHEAD)
            # One with a token stands for itself: merged with others it would lose it.
            send = partial(self._send, token=batch.token)
            self._landed.after_commit(sums, send, merge=False)
        return self._unknown(batch.deltas, Unknown.COMMIT)

    def _send(self, sums: Sums[Hashable], token: UUID | None = None) -> None:
        """Count what was committed, page by page. The values are not needed."""
        deltas = deltas_of(sums)
        failed: list[Exception] = []
        for start in range(0, len(deltas), AT_ONCE):
            page = deltas[start : start + AT_ONCE]
            try:
                run(self._count(Batch(page, token), store.NO_TOTALS), self._pending.send)
            except (errors.CounterError, Error) as error:
                # The caller has committed, and gets no error.
                amounts = {self._landed.label(delta.key): delta.by for delta in page}
                self._unsent(amounts, error, "amounts")
                failed.append(error)
        if failed:
            raise failed[0]

    def _count(self, batch: Batch, age: int) -> Steps[NewValues]:
        if batch.token is not None:
            return (yield from self._count_once(batch.deltas[0], batch.token, age))
        keys = {counter_of(self._label, delta.key): delta for delta in batch.deltas}
        try:
            alone = yield from self._counted_alone(keys, age)
            if alone is not None:
                return alone
            added: store.Added = yield self._pending.add(keys, age)
        except errors.CounterUnavailable as error:
            return (yield from self._spilled(batch.deltas, error))
        # Nearly always all totals are known, and the database is not asked.
        known = {
            keys[counter].key: found.total + found.pending
            for counter, found in added.found.items()
            if found.total is not None
        }
        self._shortens = len(known) == len(keys)
        if self._shortens:
            return known
        rest = self._refused(added)
        values = dict((yield from self._new_values(added.found, keys, age)))
        if rest:
            refused = [delta for counter, delta in keys.items() if counter in added.refused]
            try:
                values.update((yield from self._spilled(refused, rest)))
            except (errors.CounterError, Error) as error:
                if not values:
                    raise
                # Some are counted, in another part of the cluster.
                raise errors.OutcomeUnknown(using=self._pending.shown) from error
        return values

    def _counted_alone(self, keys: Mapping[str, Delta], age: int) -> Steps[NewValues | None]:
        """Count one counter in the shortest way, if that is open, and return its value.

        It can't ask for a total, and a try in vain takes a round trip.
        """
        if len(keys) != 1 or not (self._shortens or age == store.NO_TOTALS):
            return None
        ((counter, delta),) = keys.items()
        if delta.effects or abs(delta.by) > store.LARGEST_SUM:
            return None
        found: store.CachedState | None = yield self._pending.add_only(counter, delta.by, age)
        if found is None:
            return None
        if found.total is None:
            return self._unknown((delta,), Unknown.UNASKED)
        return {delta.key: found.total + found.pending}

    def _refused(self, added: store.Added) -> errors.CounterUnavailable | None:
        """Why some could not be added, where others can be counted elsewhere."""
        away = None
        for error in added.refused.values():
            if not isinstance(error, errors.CounterUnavailable):
                # An error other than this says that nothing was counted.
                raise errors.OutcomeUnknown(using=self._pending.shown) if added.found else error
            away = away or error
        return away

    def _count_once(self, delta: Delta, token: UUID, age: int) -> Steps[NewValues]:
        counter, window = counter_of(self._label, delta.key), (TOKEN_WINDOW, AHEAD)
        try:
            found, used = yield self._pending.add_once(counter, delta, token.hex, age, window)
        except (errors.CounterUnavailable, errors.OutcomeUnknown) as error:
            return (yield from self._spilled_once(delta, token, error))
        values = yield from self._new_values({counter: found}, {counter: delta}, age)
        value = values[delta.key]
        if isinstance(value, Unknown):
            return {delta.key: Unknown(str(delta.key), value.reason, replayed=used)}
        if found.total is None:
            with suppress(errors.CounterUnavailable):
                yield self._pending.settle(counter, token.hex, value)
        return {delta.key: result_of(value, replayed=used)}

    def _spilled_once(
        self, delta: Delta, token: UUID, error: errors.CounterError
    ) -> Steps[NewValues]:
        """Count elsewhere: with the same token it counts once, even if the request arrived."""
        if self._spill is None or not self._spill.keeps_tokens:
            raise error
        try:
            spilled: Any = yield partial(self._spill_now, (delta,), token)
        except (errors.CounterError, Error, Claimed) as refused:
            if isinstance(error, errors.CounterUnavailable):
                raise
            # It tells of the ledger, and not whether Redis has counted.
            raise error from refused
        replayed = spilled[delta.key].replayed
        return {delta.key: Unknown(str(delta.key), Unknown.SPILLED, replayed=replayed)}

    def _spill_now(self, deltas: Sequence[Delta], token: UUID | None) -> NewValues:
        """Count elsewhere, with tags as a landing would have them."""
        assert self._spill is not None
        made, using = projector(), self._landed.using
        admitted = made.admitted(deltas, using) if made else deltas
        return self._spill.apply(Batch(tuple(admitted), token))

    def _spilled(
        self, deltas: Sequence[Delta], error: errors.CounterUnavailable
    ) -> Steps[NewValues]:
        """Count elsewhere what is known not to be counted."""
        if self._spill is None:
            raise error
        yield partial(self._spill_now, deltas, None)
        return self._unknown(deltas, Unknown.SPILLED)

    def _new_values(
        self, found: Mapping[str, store.CachedState], keys: Mapping[str, Delta], age: int
    ) -> Steps[NewValues]:
        """The values after a change. Counted increments stay counted, whether or not they are."""
        if age == store.NO_TOTALS:
            return self._unknown([keys[counter] for counter in found], Unknown.UNASKED)
        try:
            seen = yield from self._asking.parts(found, {c: d.key for c, d in keys.items()})
        except (errors.CounterError, Error):
            return self._unknown([keys[counter] for counter in found], Unknown.DATABASE)
        return {key: parts.total + parts.pending for key, parts in seen.items()}

    def _unknown(self, deltas: Iterable[Delta], why: str) -> Mapping[Hashable, Unknown]:
        return {delta.key: Unknown(self._landed.label(delta.key), why) for delta in deltas}

    def _read(self, key: Hashable, consistency: str, max_age: float) -> Steps[Reading]:
        if consistency not in self.consistencies:
            raise errors.UnsupportedConsistency(
                strategy=self.name, consistency=consistency, offered=", ".join(self.consistencies)
            )
        as_of = clock.now()
        try:
            age = None if consistency == "exact" else max_age
            seen = yield from self._asking.ask({counter_of(self._label, key): key}, age)
        except errors.CounterUnavailable:
            if consistency == "exact":
                raise
            seen, consistency = (yield from self._asking.landed_only([key])), "landed"
        (parts,) = seen.values()
        if not parts.exists and not self._landed.inserts:
            raise errors.RecordMissing(key=self._landed.label(key))
        return parts.reading(as_of, consistency)

    def _readings(
        self, keys: Sequence[Hashable], max_age: float
    ) -> Steps[Mapping[Hashable, Reading]]:
        as_of, consistency = clock.now(), "cached"
        try:
            seen = yield from self._asking.ask(self._counters(keys), max_age)
        except errors.CounterUnavailable:
            seen, consistency = (yield from self._asking.landed_only(keys)), "landed"
        return {
            key: parts.reading(as_of, consistency)
            for key, parts in seen.items()
            if parts.exists or self._landed.inserts
        }

    def _values(self, keys: Sequence[Hashable], max_age: float | None) -> Steps[Any]:
        """The parts of many values, page by page."""
        seen: dict[Hashable, store.CachedParts] = {}
        for start in range(0, len(keys), _PAGE):
            page = keys[start : start + _PAGE]
            try:
                seen.update((yield from self._asking.ask(self._counters(page), max_age)))
            except errors.CounterUnavailable:
                if max_age is None:
                    raise
                seen.update((yield from self._asking.landed_only(page)))
        return {key: parts for key, parts in seen.items() if parts.exists or parts.pending}

    def _counters(self, keys: Iterable[Hashable]) -> dict[str, Hashable]:
        return {counter_of(self._label, key): key for key in keys}


def _build(
    table: Table,
    using: str,
    shared: Shared,
    *,
    cache: str,
    on_redis_down: str,
    timeout: float,
    returns: str,
) -> Strategy:
    detour = _DETOURS.get(on_redis_down)
    spill = shared.strategy(import_string(detour).recipe(), table, using) if detour else None
    pending = pending_of(cache, timeout, using)
    unsent = partial(record_unsent, using, pending.name)
    return Cached(pending, SqlLanded(table, using), spill, unsent, table.label, returns)


_CACHE = Option(
    "cache",
    "default",
    "an alias of CACHES or a URL",
    "[Which Redis](#cache) keeps what waits.",
    lambda value: isinstance(value, str) and value != "",
    secret=True,
)
_TIMEOUT = seconds(
    "timeout",
    TIMEOUT,
    "How long to wait for Redis: for the connection, and for each answer.",
)
_RETURNS = choice(
    "returns",
    (VALUE, "nothing"),
    "Whether a change returns the new value, or [nothing](../how-to/hot-counters.md#no-total): "
    "then it never asks for a total.",
)
_IS_REDIS = "Counting in Redis is 'cached'."
DECLARED = Declaration(
    Cached,
    Capabilities(joins=False, outside=True, cached=True, one_row=True, raises=True),
    _build,
    namespaces=(
        _CACHE._replace(name="CACHE"),
        choice(
            "ON_REDIS_DOWN",
            ("ledger", "raise", "exact"),
            "Where increments go while that Redis cannot be reached: into the ledger, "
            "nowhere (`CounterUnavailable`), or into the total.",
        ),
        seconds(
            "max_age",
            MAX_AGE,
            'How old a total may be where a read with `consistency="cached"` does not say it.',
        )._replace(builds=False),
        _TIMEOUT,
        _RETURNS,
    ),
    fields=(
        _CACHE,
        choice(
            "on_redis_down",
            ("exact", "raise"),
            "Where increments go while that Redis cannot be reached: into the column, "
            "or nowhere (`CounterUnavailable`).",
        ),
        _TIMEOUT,
        _RETURNS,
    ),
    guesses={"redis": _IS_REDIS, "valkey": _IS_REDIS},
)


class CachedAsExact(exact.Exact):
    """Cached counters where there is no Redis: for development and tests.

    A change is part of the caller's transaction, and each reading is exact, with any `consistency`.
    """

    name: ClassVar[str] = "cached as exact"
    consistencies: ClassVar[tuple[str, ...]] = ("exact", "cached")


# It cannot be declared: it replaces cached counters where COUNTERS_CACHED_AS_EXACT is set.
CACHED_AS_EXACT = Declaration(
    CachedAsExact,
    Capabilities(in_place=True, cached=True, one_row=True, raises=True),
    lambda table, using, _: CachedAsExact(SqlTotals(table, using)),
)
