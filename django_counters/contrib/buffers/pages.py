"""Pages of a buffer: nothing is added to them any more, and each is counted once."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from django_counters.effects import kind_named
from django_counters.errors import CounterOverflow
from django_counters.registry import registry
from django_counters.stores.base import Move, PartitionBusy
from django_counters.stores.sql.batches import OLDEST, SqlBatches
from django_counters.stores.sql.incidents import record
from django_counters.stores.sql.positions import Moved
from django_counters.strategies.declaring import Recipe
from django_counters.tables import CounterIncident
from django_counters.tokens import moment_of
from django_counters.types import INT8, Batch, Cell, Delta, NewValues
from django_counters.write.changes import tell
from django_counters.write.pages import SOURCE, Entries, Entry, Lander, Page, deltas_in

#: An amount that is so large is counted by itself: a sum that does not fit would take others along.
LARGE = 2**32
# More than anything sealed has pages: they have numbers of their own.
_PAGES = 1_000_000


def entry_of(delta: Delta) -> Entry | None:
    """Return the entry that a change is merged into; None if it is too large to be merged, or adds
    other amounts to its cells."""
    if not is_mergeable(delta.by):
        return None
    if not delta.effects:
        return str(delta.key)
    if any(effect.by != delta.by for effect in delta.effects):
        return None
    return str(delta.key), tuple(effect.cell for effect in delta.effects)


def is_mergeable(by: int) -> bool:
    """Return whether an amount is small enough to be merged with others."""
    return -LARGE < by < LARGE


def text_of(entry: Entry) -> str:
    """Return an entry as a text, which is the same in every process. Keys have no white space."""
    if isinstance(entry, str):
        return entry
    key, cells = entry
    return json.dumps([key, [_words(cell) for cell in cells]])


def _words(cell: Cell) -> list[str | int]:
    """The name of a kind, and the values of a cell; moments as seconds."""
    columns = zip(cell.kind.own, cell.values, strict=True)
    return [cell.kind.name, *(column.plain(value) for column, value in columns)]


def _cell_in(name: str, *values: Any) -> Cell:
    kind = kind_named(name)
    columns = zip(kind.own, values, strict=True)
    return Cell(kind, tuple(column.parsed(value) for column, value in columns))


def entry_in(text: str) -> Entry:
    """Return the entry of a text.

    Raises:
        UnknownKind: it has rows of an app that isn't installed.
        ValueError: the text isn't an entry.
    """
    if " " not in text:
        return text
    key, cells = json.loads(text)
    return key, tuple(_cell_in(*words) for words in cells)


class Serial(NamedTuple):
    """The serial number of an interval.

    Attributes:
        incarnation: the history of one buffer in one process.
        number: its number there, from 1 on.
        made: when its file was made; None if it is in memory alone.
    """

    incarnation: str
    number: int
    made: datetime | None = None


class SealedInterval:
    """The increments of an interval, in pages.

    All processes make the same pages of the same increments.

    Args:
        entries: the increments.
        serial: the serial number of the interval.
        size: about how many entries a page has.
    """

    def __init__(self, entries: Entries, serial: Serial, size: int) -> None:
        self.entries = entries
        # Sums of zero are not found in a file.
        some = sum(1 for by in entries.values() if by)
        first, number = serial.number * _PAGES, max(1, -(-some // size))
        self._pages = tuple(
            Page(serial.incarnation, first + index, serial.made) for index in range(number)
        )
        for entry, by in entries.items():
            self.page(entry).entries[entry] = by

    def page(self, entry: Entry) -> Page:
        """Return the page of an entry."""
        # A counter may have more cells than one page should.
        text = entry if isinstance(entry, str) else repr(entry)
        return self._pages[zlib.crc32(text.encode()) % len(self._pages)]

    def __iter__(self) -> Iterator[Page]:
        """Return the pages that aren't known to be counted."""
        return (page for page in self._pages if page.entries and not page.landed)


# Landing in the database


class InDatabase(Lander):
    """Counts pages in the database, where the history of the buffer moves in the same transaction.

    So a page counts once, whether its process flushes it or another one that has adopted its file.
    """

    size = 1_000

    def __init__(self, recipe: Recipe, using: str) -> None:
        super().__init__(recipe, using)
        # The last position of a history that this process knows.
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
            with registry.kept(SqlBatches, self.using).landing():
                registry.positions(self.using).move([move])
                values = self._applied(deltas, page)
        except Moved as moved:
            # By a process that has found its file. The next attempt asks how far that one is.
            raise PartitionBusy(str(moved)) from moved
        self._reached = page.incarnation, str(page.number)
        if values:
            counted = tuple(delta for delta in deltas if delta.key in values)
            tell(self._strategy(), Batch(counted), values, self.using)

    def _before(self, page: Page) -> str:
        """Return the position of a page's history; empty if nothing of it is counted."""
        incarnation, position = self._reached
        return position if incarnation == page.incarnation else self._position(page.incarnation)

    def _is_forgotten(self, page: Page) -> bool:
        """Return whether it is so old that the position of its history may be forgotten."""
        made = page.made or moment_of(UUID(page.incarnation))
        return made < registry.kept(SqlBatches, self.using).now() - OLDEST

    def _quarantine(self, reason: str, deltas: tuple[Delta, ...], page: Page) -> None:
        amounts = {str(delta.key): delta.by for delta in deltas}
        detail = {"reason": reason, "amounts": amounts, "generations": [page.name]}
        record(CounterIncident.Kind.QUARANTINED, SOURCE, detail, self.using)

    def _applied(self, deltas: tuple[Delta, ...], page: Page) -> NewValues:
        """Apply everything that fits; quarantine the rest."""
        if not deltas:
            return {}
        strategy = self._strategy()
        try:
            # Only the single changes were checked before.
            low, high = INT8
            for delta in deltas:
                if not low <= delta.by <= high:
                    raise CounterOverflow(key=str(delta.key), low=low, high=high)
            with strategy.all_or_nothing():
                return strategy.apply(Batch(deltas))
        except CounterOverflow:
            if len(deltas) > 1:
                middle = len(deltas) // 2
                first = self._applied(deltas[:middle], page)
                return {**first, **self._applied(deltas[middle:], page)}
        self._quarantine("overflow", deltas, page)
        return {}

    def has_landed(self, page: Page) -> bool:
        """Return whether the position of its history has reached it."""
        return int(self._position(page.incarnation) or 0) >= page.number
