"""How the pages of buffers are landed, each of them once, however often that is tried."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import chain
from typing import Protocol
from uuid import UUID

from django_counters import clock
from django_counters.exceptions import (
    CounterError,
    CounterOverflow,
    CounterUnavailable,
    OutcomeUnknown,
    TokenConflict,
    TokenExpired,
)
from django_counters.registry import registry
from django_counters.stores.base import Move
from django_counters.stores.redis.keys import SLOTS, slot_of
from django_counters.stores.sql.batches import OLDEST
from django_counters.stores.sql.incidents import record, record_unsent
from django_counters.stores.sql.partitions import Busy
from django_counters.stores.sql.positions import Moved
from django_counters.stores.sql.tables import NAMED
from django_counters.strategies.base import Outside, Strategy
from django_counters.strategies.cached import TOKEN_WINDOW
from django_counters.strategies.declaring import Recipe
from django_counters.tables import CounterIncident
from django_counters.tokens import moment_of, token_of
from django_counters.types import INT8, Batch, Delta
from django_counters.values import NewValues, Unknown
from django_counters.write.page import Page, deltas_in
from django_counters.write.telling import applied, tell

SOURCE = "buffer"
# Seconds: how long a process that lands for others may stand still.
LEASE = 3.0


class Lander(Protocol):
    """Lands pages of counters of one recipe in one database.

    Attributes:
        using: the database.
        slots: how many kinds of pages there are.
        size: how many entries a page has, about.
    """

    using: str
    slots: int
    size: int

    def begin(self) -> None:
        """Have landed nothing: in a new process, and where a buffer forgets what it had."""

    def slot(self, key: str) -> int:
        """The kind of the page of a counter."""

    def land(self, page: Page) -> None:
        """Count a page, unless it was counted. Those of one buffer come in their order.

        Raises:
            OutcomeUnknown: land the same page again.
            Busy, CounterError: nothing was counted.
        """

    def have_landed(self, places: Sequence[tuple[Page, str]]) -> Sequence[bool]:
        """Whether each page was counted with a counter, as far as that is committed by now."""

    def apply(self, delta: Delta) -> None:
        """Count what no buffer takes."""


class Merging(Lander, Protocol):
    """Also lands pages of several buffers as one."""

    def land_together(self, pages: Sequence[Page]) -> None:
        """Count pages of several buffers as one, but those that were counted, by whomever.

        Raises:
            Moved, CounterError, Busy: some may be counted, and some not. Land each by itself.
        """


class StrategyLander:
    """What all do in one way: what no buffer takes is for the strategy."""

    def __init__(self, recipe: Recipe, using: str) -> None:
        self.using = using
        self._recipe = recipe.for_batches
        self.begin()

    def begin(self) -> None:
        """Nothing is kept between two pages."""

    def slot(self, key: str) -> int:  # noqa: ARG002
        """All counters are of one kind."""
        return 0

    def apply(self, delta: Delta) -> None:
        """Count what no buffer takes."""
        applied(self._strategy(), Batch((delta,)), self.using)

    def _strategy(self) -> Strategy:
        return registry.strategy(self._recipe, NAMED, self.using)

    def _positions(self, incarnations: Collection[str]) -> Mapping[str, str]:
        """How far histories are; empty where nothing of one is counted, or that is forgotten."""
        found = registry.positions(self.using).among(SOURCE, incarnations)
        return {one: found[one].position if one in found else "" for one in incarnations}

    def _position(self, incarnation: str) -> str:
        return self._positions([incarnation])[incarnation]


class InDatabase(StrategyLander):
    """Lands where the database has all: the history of the buffer moves in the transaction.

    So a page is landed once, by the process that knows of it: its process, or one that has found
    its file.
    """

    slots, size = 1, 1_000

    def __init__(self, recipe: Recipe, using: str) -> None:
        super().__init__(recipe, using)
        # How far the last history is, as far as it is known here.
        self._reached = ("", "")

    def land(self, page: Page) -> None:
        """Count a page and move the history of its buffer, in one transaction."""
        try:
            self.land_together([page])
        except Moved as moved:
            # By a process that has found its file: it has this page, or an earlier one.
            if not all(self.have_landed([(page, "")])):
                raise Busy(str(moved)) from moved

    def land_together(self, pages: Sequence[Page]) -> None:
        """Count pages of several histories as one, and move each of these, in one transaction.

        Pages that were counted, by whomever, are left out.

        Raises:
            Moved: another process has just counted one of them. None is counted here.
            CounterOverflow: a sum of several pages does not fit. None is counted here.
        """
        before = self._before(pages)
        due = [page for page in pages if self._is_due(page, before[page.incarnation])]
        if not due:
            return
        self._reached = ("", "")
        deltas, names = deltas_in(*(page.entries for page in due)), [page.name for page in due]
        moves = [
            Move(SOURCE, page.incarnation, before[page.incarnation], str(page.number))
            for page in due
        ]
        positions = registry.positions(self.using)
        with registry.batches(self.using).landing():
            if len(due) > 1:
                # Nobody waits for a process that was stopped while it lands for others.
                positions.lease(LEASE)
            positions.move(moves)
            values = self._applied(deltas, names)
        # Of the buffer itself, where it has a page among them.
        self._reached = due[0].incarnation, str(due[0].number)
        if values:
            counted = tuple(delta for delta in deltas if delta.key in values)
            tell(self._strategy(), Batch(counted), values, self.using)

    def _before(self, pages: Sequence[Page]) -> Mapping[str, str]:
        """How far the histories of pages are; empty where nothing of one has landed."""
        incarnations = {page.incarnation for page in pages}
        incarnation, position = self._reached
        if incarnations == {incarnation}:
            return {incarnation: position}
        return self._positions(incarnations)

    def _is_due(self, page: Page, before: str) -> bool:
        """Whether a page is to be counted: it was not, and that is known."""
        if before:
            return int(before) < page.number
        if self._is_forgotten(page):
            self._quarantine("expired", deltas_in(page.entries), [page.name])
            return False
        return True

    def _is_forgotten(self, page: Page) -> bool:
        """Whether it is so old that the position of its history is forgotten."""
        made = page.made or moment_of(UUID(page.incarnation))
        return made < registry.batches(self.using).now() - OLDEST

    def _quarantine(self, reason: str, deltas: tuple[Delta, ...], names: Sequence[str]) -> None:
        detail = {"reason": reason, "amounts": _amounts(deltas), "generations": list(names)}
        record(CounterIncident.Kind.QUARANTINED, SOURCE, detail, self.using)

    def _applied(self, deltas: tuple[Delta, ...], names: Sequence[str]) -> NewValues:
        """Apply all that fits; one that does not keeps no other from landing."""
        if not deltas:
            return {}
        strategy = self._strategy()
        try:
            _check_range(deltas)
            with strategy.all_or_nothing():
                return strategy.apply(Batch(deltas))
        except CounterOverflow:
            if len(names) > 1:
                # A part of the sum may fit.
                raise
            if len(deltas) > 1:
                first, second = _halves(deltas)
                return {**self._applied(first, names), **self._applied(second, names)}
        self._quarantine("overflow", deltas, names)
        return {}

    def have_landed(self, places: Sequence[tuple[Page, str]]) -> Sequence[bool]:
        """Whether their histories are as far as that."""
        reached = self._positions({page.incarnation for page, _ in places})
        return [int(reached[page.incarnation] or 0) >= page.number for page, _ in places]


class InRedis(StrategyLander):
    """Lands where what is pending waits in a Redis, which remembers the ids of pages."""

    slots, size = SLOTS, 200

    def slot(self, key: str) -> int:
        """What one step can count together."""
        return slot_of(key)

    def land(self, page: Page) -> None:
        """Count a page in one round trip."""
        deltas = deltas_in(page.entries)
        if not deltas:
            return
        try:
            counted = self._land(page, page.id, deltas)
        except (CounterUnavailable, Busy) as error:
            if page.halved:
                # One half may be counted, so the page keeps its id.
                raise OutcomeUnknown(using=self.using) from error
            raise
        self._tell(counted)

    def _tell(self, deltas: tuple[Delta, ...]) -> None:
        values = {delta.key: Unknown(str(delta.key), Unknown.BUFFERED) for delta in deltas}
        if values:
            tell(self._strategy(), Batch(deltas), values, self.using)

    def land_together(self, pages: Sequence[Page]) -> None:
        """Count pages of several buffers: those of each slot in one round trip.

        Raises:
            CounterOverflow: a sum of several pages does not fit.
            TokenConflict: another process has just counted one of several pages.
            TokenExpired: one is of a time whose ids are forgotten.
                After these, the pages of other slots are counted.
        """
        failed: CounterError | None = None
        for several in self._due(pages):
            try:
                self._land_slot(several)
            except (CounterOverflow, TokenConflict, TokenExpired) as error:
                failed = failed or error
        if failed:
            raise failed

    def _due(self, pages: Sequence[Page]) -> Iterable[list[Page]]:
        """The pages of each slot of which nothing is counted. Those that are counted are marked."""
        slots: dict[int, list[Page]] = {}
        mark(pages, self)
        for page in pages:
            if not (page.landed or page.halved or page.told):
                slots.setdefault(self.slot(page.first), []).append(page)
        return slots.values()

    def _land_slot(self, pages: Sequence[Page]) -> None:
        deltas = deltas_in(*(page.entries for page in pages))
        if not deltas and len(pages) > 1:
            # Nothing can be sent for a sum of zero.
            for page in pages:
                self._land_slot([page])
            return
        for part in (*(deltas_in(page.entries) for page in pages), deltas):
            # What the process of a page would refuse is not counted here.
            _check_range(part)
        is_new = bool(deltas) and self._outside().land([page.id for page in pages], deltas)
        for page in pages:
            page.landed = True
        if is_new:
            self._tell(deltas)

    def _land(self, page: Page, name: str, deltas: tuple[Delta, ...]) -> tuple[Delta, ...]:
        """Land what has an id, or its halves; what was counted now. One that was refused once is
        not tried again."""
        if name in page.told:
            return ()
        if name not in page.halved:
            try:
                _check_range(deltas)
                return deltas if self._outside().land([name], deltas) else ()
            except (TokenExpired, CounterOverflow) as error:
                if isinstance(error, TokenExpired) and _is_young(error):
                    reason = "the clocks of this process and of its Redis are half an hour apart"
                    raise CounterUnavailable(using=self.using, reason=reason) from error
                if isinstance(error, TokenExpired) or len(deltas) == 1:
                    record_unsent(self.using, SOURCE, _amounts(deltas), error)
                    page.told.add(name)
                    return ()
                page.halved.add(name)
        halves = _named_halves(name, deltas)
        return tuple(chain.from_iterable(self._land(page, half, part) for half, part in halves))

    def have_landed(self, places: Sequence[tuple[Page, str]]) -> Sequence[bool]:
        """Whether that Redis remembers them. One round trip for all."""
        names = [_part_with(page, key) for page, key in places]
        keys = {name: key for name, (_, key) in zip(names, places, strict=True) if name}
        landed = self._outside().landed_pages(keys) if keys else frozenset()
        return [
            name in page.told or name in landed
            for name, (page, _) in zip(names, places, strict=True)
        ]

    def _outside(self) -> Outside:
        found = registry.outside(self._recipe, NAMED, self.using)
        assert found, "its increments wait in a Redis"
        return found


def lander_of(recipe: Recipe, using: str) -> Lander:
    """Lands counters of a recipe."""
    made: Callable[[Recipe, str], Lander] = InRedis if recipe.can.outside else InDatabase
    return made(recipe, using)


def mark(pages: Sequence[Page], lander: Lander) -> None:
    """Mark the pages that were counted by now, by whomever. Halves are asked for one by one."""
    whole = [page for page in pages if not page.halved]
    if whole:
        told = lander.have_landed([(page, page.first) for page in whole])
        for page, is_landed in zip(whole, told, strict=True):
            page.landed = is_landed


def _is_young(error: TokenExpired) -> bool:
    """Whether only the clock of another process says that it is out of its window."""
    return error.created_at > clock.utc() - TOKEN_WINDOW


def _check_range(deltas: tuple[Delta, ...]) -> None:
    """Refuse sums that are none of 64 bits: each change was, and their sums were not checked
    since."""
    low, high = INT8
    for delta in deltas:
        if not low <= delta.by <= high:
            raise CounterOverflow(key=str(delta.key), low=low, high=high)


def _halves(deltas: tuple[Delta, ...]) -> tuple[tuple[Delta, ...], tuple[Delta, ...]]:
    middle = len(deltas) // 2
    return deltas[:middle], deltas[middle:]


def _part_with(page: Page, key: str) -> str:
    """The id under which a counter of a page is sent; empty for a sum of zero, which is not."""
    name = page.id
    if name not in page.halved:
        # Of a large page this is asked for each counter.
        return name
    deltas = deltas_in(page.entries)
    while name in page.halved:
        halves = _named_halves(name, deltas)
        among = (one for one in halves if any(delta.key == key for delta in one[1]))
        name, deltas = next(among, ("", ()))
    return name if deltas else ""


def _named_halves(name: str, deltas: tuple[Delta, ...]) -> list[tuple[str, tuple[Delta, ...]]]:
    moment = moment_of(UUID(name))
    halves = enumerate(_halves(deltas))
    return [(token_of(f"{name} {number}", moment).hex, half) for number, half in halves]


def _amounts(deltas: tuple[Delta, ...]) -> dict[str, int]:
    return {str(delta.key): delta.by for delta in deltas}
