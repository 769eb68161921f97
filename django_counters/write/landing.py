"""How the pages of buffers are landed, each of them once, however often that is tried."""

from __future__ import annotations

from typing import ClassVar
from uuid import UUID

from django_counters.exceptions import (
    CounterOverflow,
)
from django_counters.registry import registry
from django_counters.stores.base import Move
from django_counters.stores.sql.batches import OLDEST
from django_counters.stores.sql.incidents import record
from django_counters.stores.sql.partitions import Busy
from django_counters.stores.sql.positions import Moved
from django_counters.stores.sql.tables import NAMED
from django_counters.strategies.base import Strategy
from django_counters.strategies.declaring import Recipe
from django_counters.tables import CounterIncident
from django_counters.tokens import moment_of
from django_counters.types import INT8, Batch, Delta
from django_counters.values import NewValues
from django_counters.write.page import Page, deltas_in
from django_counters.write.telling import applied, tell

SOURCE = "buffer"


class Lander:
    """Lands pages of counters of one recipe in one database.

    Attributes:
        using: the database.
        size: how many entries a page has, about.
    """

    size: ClassVar[int]

    def __init__(self, recipe: Recipe, using: str) -> None:
        self.using = using
        self._recipe = recipe
        self.begin()

    def begin(self) -> None:
        """Have landed nothing: in a new process, and if a buffer forgets what it had."""

    def land(self, page: Page) -> None:
        """Count a page, unless it was counted. Those of one buffer come in their order.

        Raises:
            OutcomeUnknown: land the same page again.
            Busy, CounterError: nothing was counted.
        """
        raise NotImplementedError

    def has_landed(self, page: Page) -> bool:
        """Whether a page was counted, as far as that is committed by now."""
        raise NotImplementedError

    def apply(self, delta: Delta) -> None:
        """Count what no buffer takes."""
        applied(self._strategy(), Batch((delta,)), self.using)

    def _strategy(self) -> Strategy:
        return registry.strategy(self._recipe, NAMED, self.using)

    def _position(self, incarnation: str) -> str:
        """How far a history is; empty if nothing of it is counted, or that is forgotten."""
        found = registry.positions(self.using).among(SOURCE, [incarnation])
        return found[incarnation].position if found else ""


class InDatabase(Lander):
    """Lands where the database has all: the history of the buffer moves in the transaction.

    So a page is landed once, by the process that knows of it: its process, or one that has found
    its file.
    """

    size = 1_000

    def __init__(self, recipe: Recipe, using: str) -> None:
        super().__init__(recipe, using)
        # How far the last history is, as far as it is known here.
        self._reached = ("", "")

    def land(self, page: Page) -> None:
        """Count a page and move the history of its buffer, in one transaction."""
        deltas = deltas_in(page.entries)
        before = self._before(page)
        if before and int(before) >= page.number:
            return
        self._reached = ("", "")
        if not before and self._is_forgotten(page):
            self._quarantine("expired", deltas, page)
            return
        move = Move(SOURCE, page.incarnation, before, str(page.number))
        try:
            with registry.batches(self.using).landing():
                registry.positions(self.using).move([move])
                values = self._applied(deltas, page)
        except Moved as moved:
            # By a process that has found its file. The next attempt asks how far that one is.
            raise Busy(str(moved)) from moved
        self._reached = page.incarnation, str(page.number)
        if values:
            counted = tuple(delta for delta in deltas if delta.key in values)
            tell(self._strategy(), Batch(counted), values, self.using)

    def _before(self, page: Page) -> str:
        """How far the history of a page is; empty where nothing of it has landed."""
        incarnation, position = self._reached
        return position if incarnation == page.incarnation else self._position(page.incarnation)

    def _is_forgotten(self, page: Page) -> bool:
        """Whether it is so old that the position of its history is forgotten."""
        made = page.made or moment_of(UUID(page.incarnation))
        return made < registry.batches(self.using).now() - OLDEST

    def _quarantine(self, reason: str, deltas: tuple[Delta, ...], page: Page) -> None:
        detail = {"reason": reason, "amounts": _amounts(deltas), "generations": [page.name]}
        record(CounterIncident.Kind.QUARANTINED, SOURCE, detail, self.using)

    def _applied(self, deltas: tuple[Delta, ...], page: Page) -> NewValues:
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
        self._quarantine("overflow", deltas, page)
        return {}

    def has_landed(self, page: Page) -> bool:
        """Whether its history is as far as that."""
        return int(self._position(page.incarnation) or 0) >= page.number


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


def _amounts(deltas: tuple[Delta, ...]) -> dict[str, int]:
    return {str(delta.key): delta.by for delta in deltas}
