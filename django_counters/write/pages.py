"""Pages of increments, and what lands each of them once, however often that is tried."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import ClassVar

from django_counters.registry import registry
from django_counters.stores.sql.tables import NAMED
from django_counters.strategies.base import Strategy
from django_counters.strategies.declaring import Recipe
from django_counters.types import Batch, Cell, Delta, Effect, deltas_of, sums_of
from django_counters.write.changes import applied

#: The source of the positions of histories of pages, and of their incidents.
SOURCE = "buffer"
#: A counter; with the cells that it adds as much to, where it is counted by period.
Entry = str | tuple[str, tuple[Cell, ...]]
Entries = dict[Entry, int]
#: After so long without a landing a new history begins: the position of one that did not move for
#: 30 days may be forgotten.
STILL = timedelta(days=1)


def key_of(entry: Entry) -> str:
    """Return the counter."""
    return entry if isinstance(entry, str) else entry[0]


def delta_of(entry: Entry, by: int) -> Delta:
    """Return a change of an entry's counter and cells by an amount."""
    if isinstance(entry, str):
        return Delta(entry, by)
    key, cells = entry
    return Delta(key, by, effects=tuple(Effect(cell, by) for cell in cells))


def deltas_in(entries: Entries) -> tuple[Delta, ...]:
    """Return a delta for each counter, always in the same order; none for sums of zero."""
    sums: dict[tuple[str, Cell | None], int] = {}
    for entry, by in entries.items():
        key = key_of(entry)
        for cell, part in sums_of(delta_of(entry, by)):
            sums[key, cell] = sums.get((key, cell), 0) + part
    found = deltas_of({where: by for where, by in sums.items() if by})
    return tuple(sorted(found, key=lambda delta: str(delta.key)))


class Page:
    """A part of the merged increments, which is counted in one step.

    Attributes:
        entries: how much is added.
        incarnation: its history, which is of one process.
        number: its number there. Later pages have higher numbers.
        made: when its file was made; None if it is in memory alone.
        id: that of its message, if it is published; empty before it is sent for the first time.
        sent: whether it was sent, and may be counted: from then on it has one id.
        landed: whether it is known to be counted.
    """

    __slots__ = ("entries", "id", "incarnation", "landed", "made", "number", "sent")

    def __init__(self, incarnation: str, number: int, made: datetime | None = None) -> None:
        self.entries: Entries = {}
        self.incarnation = incarnation
        self.number = number
        self.made = made
        self.id = ""
        self.sent = False
        self.landed = False

    @property
    def name(self) -> str:
        """Return its name in incidents."""
        return f"{self.incarnation} {self.number}"


class Lander:
    """Counts pages of one recipe's counters in one database, or sends them there.

    Attributes:
        using: the database.
        size: about how many entries a page has.
    """

    size: ClassVar[int]

    def __init__(self, recipe: Recipe, using: str) -> None:
        self.using = using
        self._recipe = recipe
        self.begin()

    def begin(self) -> None:
        """Begin a new history: in a new process, and after everything was dropped."""

    def land(self, page: Page) -> None:
        """Count a page, unless it was counted. The pages of a history come in their order.

        Raises:
            OutcomeUnknown: land the same page again.
            Busy, CounterError: nothing was counted.
        """
        raise NotImplementedError

    def has_landed(self, page: Page) -> bool:
        """Return whether a page was counted, and that is committed."""
        raise NotImplementedError

    def apply(self, delta: Delta) -> None:
        """Count a change that is in no page."""
        applied(self._strategy(), Batch((delta,)), self.using)

    def _strategy(self) -> Strategy:
        return registry.strategy(self._recipe, NAMED, self.using)

    def _position(self, incarnation: str) -> str:
        """Return the position of a history; empty if none is known."""
        found = registry.positions(self.using).among(SOURCE, [incarnation])
        return found[incarnation].position if found else ""
