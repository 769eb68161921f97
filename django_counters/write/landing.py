"""How the pages of buffers are landed, each of them once, however often that is tried."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Protocol
from uuid import UUID

from django_counters.exceptions import (
    CounterOverflow,
    CounterUnavailable,
    OutcomeUnknown,
    TokenExpired,
)
from django_counters.registry import registry
from django_counters.stores.base import Parcel
from django_counters.stores.redis.keys import SLOTS, slot_of
from django_counters.stores.sql.incidents import record, record_unsent
from django_counters.stores.sql.partitions import Busy
from django_counters.stores.sql.tables import NAMED
from django_counters.strategies.base import Outside, Strategy
from django_counters.strategies.declaring import Recipe
from django_counters.tables import CounterIncident
from django_counters.tokens import moment_of, token_of
from django_counters.types import INT8, Batch, Delta
from django_counters.values import NewValues, Unknown
from django_counters.write.page import Page, deltas_in
from django_counters.write.telling import applied, tell

SOURCE = "buffer"


class Lander(Protocol):
    """Lands pages of counters of one recipe in one database.

    Attributes:
        using: the database.
        slots: how many kinds of pages there are.
        size: how many counters a page has, about.
    """

    using: str
    slots: int
    size: int

    def slot(self, key: str) -> int:
        """The kind of the page of a counter."""

    def land(self, page: Page, known: Collection[str]) -> None:
        """Count a page, unless it was counted.

        ``known``: ids of pages that nobody will land again, to be forgotten.

        Raises:
            OutcomeUnknown: land the same page again.
            Busy, CounterError: nothing was counted.
        """

    def has_landed(self, page: Page, key: str) -> bool:
        """Whether the page with a counter was counted, as far as that is committed by now."""

    def apply(self, delta: Delta) -> None:
        """Count what no buffer takes."""


class _Lander:
    """What both do in one way."""

    def __init__(self, recipe: Recipe, using: str) -> None:
        self.using = using
        self._recipe = recipe.for_batches

    def apply(self, delta: Delta) -> None:
        """Count what no buffer takes."""
        applied(self._strategy(), Batch((delta,)), self.using)

    def _strategy(self) -> Strategy:
        return registry.strategy(self._recipe, NAMED, self.using)


class InDatabase(_Lander):
    """Lands where the database has all: the claim to a page stands in the transaction."""

    slots, size = 1, 1_000

    def slot(self, key: str) -> int:  # noqa: ARG002
        """All counters are of one kind."""
        return 0

    def land(self, page: Page, known: Collection[str]) -> None:
        """Count a page and write its id down, in one transaction."""
        batches, deltas = registry.batches(self.using), deltas_in(page.entries)
        values: NewValues = {}
        with batches.landing():
            batches.release(known)
            # No sums: what is landed is a change like any other, and came from no Redis.
            if batches.claim([Parcel(page.id, SOURCE, {})]):
                values = self._applied(deltas, page.id)
        if values:
            counted = tuple(delta for delta in deltas if delta.key in values)
            tell(self._strategy(), Batch(counted), values, self.using)

    def _applied(self, deltas: tuple[Delta, ...], page: str) -> NewValues:
        """Apply all that fits; one that does not keeps no other from landing."""
        if not deltas:
            return {}
        strategy = self._strategy()
        try:
            _check_range(deltas)
            with strategy.all_or_nothing():
                return strategy.apply(Batch(deltas))
        except CounterOverflow:
            if len(deltas) > 1:
                first, second = _halves(deltas)
                return {**self._applied(first, page), **self._applied(second, page)}
        detail = {"reason": "overflow", "amounts": _amounts(deltas), "generations": [page]}
        record(CounterIncident.Kind.QUARANTINED, SOURCE, detail, self.using)
        return {}

    def has_landed(self, page: Page, key: str) -> bool:  # noqa: ARG002
        """Whether the claim to it is there."""
        return bool(registry.batches(self.using).known([page.id]))


class InRedis(_Lander):
    """Lands where what is pending waits in a Redis, which remembers the ids of pages."""

    slots, size = SLOTS, 200

    def slot(self, key: str) -> int:
        """What one step can count together."""
        return slot_of(key)

    def land(self, page: Page, known: Collection[str]) -> None:  # noqa: ARG002 - they expire
        """Count a page in one round trip."""
        deltas = deltas_in(page.entries)
        if not deltas:
            return
        try:
            self._land(page, page.id, deltas)
        except (CounterUnavailable, Busy) as error:
            if page.halved:
                # One half may be counted, so the page keeps its id.
                raise OutcomeUnknown(using=self.using) from error
            raise
        values = {delta.key: Unknown(str(delta.key), Unknown.BUFFERED) for delta in deltas}
        tell(self._strategy(), Batch(deltas), values, self.using)

    def _land(self, page: Page, name: str, deltas: tuple[Delta, ...]) -> None:
        """Land what has an id, or its halves. One that was refused once is not tried again."""
        if name in page.told:
            return
        if name not in page.halved:
            try:
                _check_range(deltas)
                return self._outside().land(name, deltas)
            except (TokenExpired, CounterOverflow) as error:
                if isinstance(error, TokenExpired) or len(deltas) == 1:
                    record_unsent(self.using, SOURCE, _amounts(deltas), error)
                    page.told.add(name)
                    return None
                page.halved.add(name)
        for half, part in _named_halves(name, deltas):
            self._land(page, half, part)

    def has_landed(self, page: Page, key: str) -> bool:
        """Whether that Redis remembers it."""
        name, deltas = page.id, deltas_in(page.entries)
        while name in page.halved:
            halves = _named_halves(name, deltas)
            name, deltas = next(one for one in halves if any(d.key == key for d in one[1]))
        return name in page.told or self._outside().has_landed(name, key)

    def _outside(self) -> Outside:
        found = registry.outside(self._recipe, NAMED, self.using)
        assert found, "its increments wait in a Redis"
        return found


def lander_of(recipe: Recipe, using: str) -> Lander:
    """Who lands counters of a recipe."""
    made: Callable[[Recipe, str], Lander] = InRedis if recipe.can.outside else InDatabase
    return made(recipe, using)


def _check_range(deltas: tuple[Delta, ...]) -> None:
    """Refuse sums that are none of 64 bits: each change was, and nobody has looked since."""
    low, high = INT8
    for delta in deltas:
        if not low <= delta.by <= high:
            raise CounterOverflow(key=str(delta.key), low=low, high=high)


def _halves(deltas: tuple[Delta, ...]) -> tuple[tuple[Delta, ...], tuple[Delta, ...]]:
    middle = len(deltas) // 2
    return deltas[:middle], deltas[middle:]


def _named_halves(name: str, deltas: tuple[Delta, ...]) -> list[tuple[str, tuple[Delta, ...]]]:
    moment = moment_of(UUID(name))
    halves = enumerate(_halves(deltas))
    return [(token_of(f"{name} {number}", moment).hex, half) for number, half in halves]


def _amounts(deltas: tuple[Delta, ...]) -> dict[str, int]:
    return {str(delta.key): delta.by for delta in deltas}
