"""The class that strategies derive from, the shares of periods, and the refusals of bounds."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, ClassVar, Protocol, runtime_checkable

from django_counters import clock
from django_counters.errors import (
    CeilingExceeded,
    CounterError,
    InsufficientCount,
    RecordMissing,
    Shortfall,
    UnsupportedConsistency,
)
from django_counters.measure import Condition, ConditionResult
from django_counters.projector import ChangeGuard, GuardsStore
from django_counters.stores.base import PendingField, PendingParts, ReadsStore
from django_counters.types import Batch, Delta, NewValues, Peak, Raised, Reading, Unknown

# -- The refusal of a change that would cross a bound.


def refusal(refused: Sequence[tuple[Delta, int]], label: Callable[[Hashable], str]) -> CounterError:
    """The error for deltas that their bounds do not admit; a floor speaks before a ceiling.

    Args:
        refused: each with the value that it met.
        label: what people call the counter of a key.
    """
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
            label(delta.key), delta.by, max(0, delta.bounds.ceiling - value), delta.bounds.ceiling
        )
        for delta, value in refused
        if delta.bounds.ceiling is not None
    )
    key, requested, available, bound = full[0]
    return CeilingExceeded(
        key=key, requested=requested, available=available, ceiling=bound, shortfalls=full
    )


def refuse_guarded(deltas: Iterable[Delta], store: GuardsStore, *, counted: bool) -> None:
    """Refuse increases that their guards don't admit. The caller locks their totals.

    ``counted``: whether the store has made them already.
    """
    for guard, guarded in _guards([delta for delta in deltas if delta.by > 0]):
        guard.check(guarded, store, counted=counted)


def taken_guarded(deltas: Iterable[Delta], store: GuardsStore) -> list[Delta]:
    """Return decreases that have guards, with the effects that they really have."""
    return [one for guard, guarded in _guards(deltas) for one in guard.taken(guarded, store)]


def _guards(deltas: Iterable[Delta]) -> Iterable[tuple[ChangeGuard, Sequence[Delta]]]:
    """Return changes by the classes of their guards, with one guard of each."""
    guarded: dict[type[ChangeGuard], tuple[ChangeGuard, list[Delta]]] = {}
    for delta in deltas:
        if delta.guard is not None:
            guarded.setdefault(type(delta.guard), (delta.guard, []))[1].append(delta)
    return guarded.values()


# -- The capabilities of a strategy, and the way in which those that keep all in one database read.

# How many counters one round trip to Redis adds to, if they aren't needed of one moment: 1,000 took
# 59 ms, and a round trip should take 50 at most.
AT_ONCE = 200


class Claimed(Exception):
    """A token was used before its counters were in the ledger, so it is known elsewhere."""


class Strategy(Protocol):
    """Decides where pending increments wait, and so how a value is put together.

    ``holds``: whether others wait for a change until the transaction ends. Of several strategies
    in one batch, those that hold are applied last. ``keeps_tokens``: whether it honours the token
    of a batch by itself; ``claims_tokens``: whether others can be claimed beside it, in the
    transaction of its change. What can be said of it without a counter is in its
    `Declaration`.
    """

    name: ClassVar[str]
    holds: ClassVar[bool]
    keeps_tokens: ClassVar[bool]
    claims_tokens: ClassVar[bool]
    consistencies: ClassVar[tuple[str, ...]]

    def apply(self, batch: Batch) -> NewValues:
        """Apply all deltas of a batch or none, and return the new values."""

    def value(self, key: Hashable) -> int:
        """Return one value; zero if there is none."""

    def values(
        self, keys: Iterable[Hashable], max_age: float | None = None
    ) -> Mapping[Hashable, int]:
        """Return the values that exist among ``keys``; exact ones where no age is given."""

    def all_or_nothing(self, *, own: bool = True) -> AbstractContextManager[None]:
        """A block whose changes are applied together, with the errors of a single change."""

    def read(self, key: Hashable, consistency: str, max_age: float) -> Reading:
        """Return one value and the known details of it; ``max_age`` in seconds, if it is cached."""


@runtime_checkable
class Outside(Strategy, Protocol):
    """A strategy whose pending increments are not in the database; async code needs no thread."""

    async def aapply(self, batch: Batch) -> NewValues:
        """`apply` for async code."""

    async def avalues(
        self, keys: Iterable[Hashable], max_age: float | None = None
    ) -> Mapping[Hashable, int]:
        """`values` for async code."""

    async def aread(self, key: Hashable, consistency: str, max_age: float) -> Reading:
        """`read` for async code."""

    def readings(self, keys: Iterable[Hashable], max_age: float) -> Mapping[Hashable, Reading]:
        """Return values that may be ``max_age`` seconds old, and the known details of each."""

    def waits(self, keys: Iterable[Hashable]) -> Mapping[Hashable, Sequence[tuple[str, int]]]:
        """The pending amount for counters, in each generation."""

    @property
    def source(self) -> str:
        """Where increments wait: the name that the database has of it."""

    def landed_among(self, generations: Sequence[str]) -> frozenset[str]:
        """Which of these generations are in the database."""

    def parts(self, key: Hashable) -> PendingParts:
        """What waits for a counter and for its cells, and is not in the database."""

    def discard_sets(self, key: Hashable, sets: Sequence[PendingField]) -> None:
        """Take the actors of a forgotten counter away, once that is committed."""

    def forget(self, keys: Iterable[Hashable]) -> None:
        """Forget totals that were changed in another way, once that is committed."""

    def discard(self, keys: Sequence[Hashable], *, cells: bool = False) -> None:
        """Take away what is pending for records that are deleted; ``cells``: they may have some."""


#: Called for a change that is made after the call has returned.
Heard = Callable[[Raised], None]


class Raises(Strategy, Protocol):
    """A strategy that can raise a counter to a number."""

    def maximum(self, peak: Peak, heard: Heard) -> Raised | Unknown:
        """Raise a counter, if its value is smaller, in one step.

        `Unknown` where it is done later; then ``heard`` is told what became of it, and else not.
        """


class CountsOnConditions(Strategy, Protocol):
    """A strategy whose changes can have a condition."""

    def apply_on(self, delta: Delta, condition: Condition) -> ConditionResult | None:
        """Make a change and the row of its condition in one statement.

        None, and nothing changed, if it takes two statements, or if the change is refused.
        """


class Summed:
    """Reads total + pending in one statement, wherever increments wait by now.

    A counter whose strategy was changed is therefore read as exactly as any other.
    """

    name: ClassVar[str]
    keeps_tokens: ClassVar[bool] = False
    claims_tokens: ClassVar[bool] = True
    consistencies: ClassVar[tuple[str, ...]] = ("exact",)

    def __init__(self, store: ReadsStore) -> None:
        self._store = store

    def value(self, key: Hashable) -> int:
        """Return one value, in one statement; zero if there is none."""
        amounts = self._store.read_one(key)
        return amounts.value if amounts else 0

    def values(
        self,
        keys: Iterable[Hashable],
        max_age: float | None = None,  # noqa: ARG002
    ) -> Mapping[Hashable, int]:
        """Return the values that exist among ``keys``, of one moment, in one statement."""
        return {key: amounts.value for key, amounts in self._store.read(keys).items()}

    def all_or_nothing(self, *, own: bool = True) -> AbstractContextManager[None]:
        """A transaction, or a savepoint in the caller's."""
        return self._store.all_or_nothing(own=own)

    def read(self, key: Hashable, consistency: str, max_age: float = 0.0) -> Reading:  # noqa: ARG002
        """Return the value of one counter; the only consistency is ``"exact"``."""
        if consistency not in self.consistencies:
            raise UnsupportedConsistency(
                strategy=self.name, consistency=consistency, offered=", ".join(self.consistencies)
            )
        as_of = clock.now()
        amounts = self._store.read_one(key)
        if (amounts is None or amounts.total is None) and not self._store.inserts:
            raise RecordMissing(key=self._store.label(key))
        total, pending = amounts or (0, 0)
        return Reading(
            value=(total or 0) + pending,
            total=total or 0,
            pending=pending,
            as_of=as_of,
            consistency=consistency,
        )


class PendingAmounts(Protocol):
    """What an `Intake` has of some counters, from before their values are read."""

    def after(self) -> tuple[Mapping[str, int], Collection[str]]:
        """Return what to add to the values that were read; and the counters to read again."""


class Intake(Protocol):
    """Takes the changes of the counters of a namespace before they are counted.

    Its ``change`` is a `Change`, its result is the `Unknown` of an intake that takes it.
    An intake is hashable. A change of a namespace without an intake tests one attribute more.
    """

    @property
    def reason(self) -> str:
        """Why no process knows the values of these counters: maxima and holds are refused."""

    @property
    def to(self) -> str | None:
        """The name of the outlet that the changes are published to; None: they are counted here."""

    def keep(self, change: Any) -> Unknown | None:
        """Take a change by another amount than zero; None if it has to be counted now.

        Called in any thread and transaction. The change may have a token, bounds, and
        ``immediately``.
        """

    def keep_delta(self, ref: Any, delta: Delta) -> Unknown | None:
        """As `keep`, for the `Ref` and the `Delta` of one of many changes."""

    def akeep(self, change: Any) -> Unknown | None:
        """As `keep`, in an event loop and without waiting; None calls `keep` in a thread.

        The change has no token and no bounds, and isn't made ``immediately``. No synchronous code
        waits for the loop, so no transaction is open.
        """

    def pending(self, keys: Collection[str], using: str) -> PendingAmounts | None:
        """Return the pending amounts of counters of the namespace; None if nothing is pending.

        Called before each read of their values.
        """
