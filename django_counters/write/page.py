"""A sealed part of a buffer: nothing is added to it any more, and it is landed page by page."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from django_counters.types import Cell, Delta, Effect, deltas_of, sums_of

#: A counter; with the cells that it adds as much to, where it is counted by period.
Entry = str | tuple[str, tuple[Cell, ...]]
Entries = dict[Entry, int]
#: After so long without a landing a new history begins: the position of one that did not move for
#: 30 days may be forgotten.
STILL = timedelta(days=1)
#: An amount that is so large is counted by itself: a sum that does not fit would take others along.
LARGE = 2**32
# More than anything sealed has pages: they have numbers of their own.
_PAGES = 1_000_000


def entry_of(delta: Delta) -> Entry | None:
    """The key under which a change is merged; None if it is too large, or adds other amounts to its
    cells."""
    if not is_mergeable(delta.by):
        return None
    if not delta.effects:
        return str(delta.key)
    if any(effect.by != delta.by for effect in delta.effects):
        return None
    return str(delta.key), tuple(effect.cell for effect in delta.effects)


def is_mergeable(by: int) -> bool:
    """Whether an amount is small enough to be merged with others."""
    return -LARGE < by < LARGE


def key_of(entry: Entry) -> str:
    """The counter."""
    return entry if isinstance(entry, str) else entry[0]


def text_of(entry: Entry) -> str:
    """The entry as a text, which is the same in every process. A key has no white space."""
    if isinstance(entry, str):
        return entry
    key, cells = entry
    return json.dumps(
        [key, [[*cell[:2], int(cell.start.timestamp()), *cell[3:]] for cell in cells]]
    )


def entry_in(text: str) -> Entry:
    """The entry of a text.

    Raises:
        ValueError: it is none.
    """
    if " " not in text:
        return text
    key, cells = json.loads(text)
    return key, tuple(
        Cell(measure, period, datetime.fromtimestamp(start, UTC), tags, member, kind)
        for measure, period, start, tags, member, kind in cells
    )


def delta_of(entry: Entry, by: int) -> Delta:
    """A change of the counter by an amount, and of its cells."""
    if isinstance(entry, str):
        return Delta(entry, by)
    key, cells = entry
    return Delta(key, by, effects=tuple(Effect(cell, by) for cell in cells))


def deltas_in(entries: Entries) -> tuple[Delta, ...]:
    """One delta for each counter, always in the same order; none for sums of zero."""
    sums: dict[tuple[str, Cell | None], int] = {}
    for entry, by in entries.items():
        key = key_of(entry)
        for cell, part in sums_of(delta_of(entry, by)):
            sums[key, cell] = sums.get((key, cell), 0) + part
    found = deltas_of({where: by for where, by in sums.items() if by})
    return tuple(sorted(found, key=lambda delta: str(delta.key)))


class Place(NamedTuple):
    """Where something sealed is among all that its buffer seals.

    Attributes:
        incarnation: the history of one buffer in one process.
        number: the place in it, from 1 on.
        made: when its file was made; None where it is in memory alone.
    """

    incarnation: str
    number: int
    made: datetime | None = None


class Page:
    """A part of it, which lands in one step.

    Attributes:
        entries: how much is added.
        incarnation: the history that it is in.
        number: its place there.
        made: when its file was made; None where it is in memory alone.
        id: that of its message, if it is published; empty before it is sent for the first time.
        sent: whether it was sent, and may be counted: from then on it has one id.
        landed: whether it is known to be counted.
    """

    __slots__ = (
        "entries",
        "id",
        "incarnation",
        "landed",
        "made",
        "number",
        "sent",
    )

    def __init__(self, place: Place, index: int) -> None:
        self.entries: Entries = {}
        self.incarnation = place.incarnation
        self.number = place.number * _PAGES + index
        self.made = place.made
        self.id = ""
        self.sent = False
        self.landed = False

    @property
    def name(self) -> str:
        """Its name in incidents."""
        return f"{self.incarnation} {self.number}"


class Sealed:
    """The increments of a buffer in one interval, in pages.

    All processes make the same pages of the same amounts.

    Args:
        entries: the increments.
        place: where it is among all that is sealed.
        size: how many entries a page has, about.
    """

    def __init__(self, entries: Entries, place: Place, size: int) -> None:
        self.entries = entries
        # Sums of zero are not found in a file.
        some = sum(1 for by in entries.values() if by)
        self._pages = tuple(Page(place, index) for index in range(max(1, -(-some // size))))
        for entry, by in entries.items():
            self.page(entry).entries[entry] = by

    def page(self, entry: Entry) -> Page:
        """The page of an entry."""
        # A counter may have more cells than one page should.
        text = entry if isinstance(entry, str) else repr(entry)
        return self._pages[zlib.crc32(text.encode()) % len(self._pages)]

    def __iter__(self) -> Iterator[Page]:
        """The pages that are not known to be counted."""
        return (page for page in self._pages if page.entries and not page.landed)
