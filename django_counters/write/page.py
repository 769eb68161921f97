"""What a buffer has sealed: nothing is added to it any more, and it is landed page by page."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from django_counters.types import Cell, Delta, Effect, deltas_of, sums_of

#: A counter; with the cells that it adds as much to, where it is counted by period.
Entry = str | tuple[str, tuple[Cell, ...]]
Entries = dict[Entry, int]


def entry_of(delta: Delta) -> Entry | None:
    """What a change is merged under; None where it adds other amounts to its cells."""
    if not delta.effects:
        return str(delta.key)
    if any(effect.by != delta.by for effect in delta.effects):
        return None
    return str(delta.key), tuple(effect.cell for effect in delta.effects)


def key_of(entry: Entry) -> str:
    """The counter."""
    return entry if isinstance(entry, str) else entry[0]


def delta_of(entry: Entry, by: int) -> Delta:
    """A change of the counter by an amount, and of its cells."""
    if isinstance(entry, str):
        return Delta(entry, by)
    key, cells = entry
    return Delta(key, by, effects=tuple(Effect(cell, by) for cell in cells))


def deltas_in(entries: Entries) -> tuple[Delta, ...]:
    """One delta for each counter, always in the same order; none for what came to nothing."""
    sums: dict[tuple[str, Cell | None], int] = {}
    for entry, by in entries.items():
        key = key_of(entry)
        for cell, part in sums_of(delta_of(entry, by)):
            sums[key, cell] = sums.get((key, cell), 0) + part
    return deltas_of({where: by for where, by in sums.items() if by})


class Page:
    """A part of what was sealed, which is landed in one step.

    Attributes:
        entries: how much is added.
        id: what its landing is known by; empty before it is sent for the first time.
        sent: whether it was sent, and may be counted: from then on it has one id.
        landed: whether it is known to be counted.
        halved: which ids were refused as a whole: their halves are landed, with ids of their own.
        told: which ids are in an incident, and are counted by nobody.
    """

    __slots__ = ("entries", "halved", "id", "landed", "sent", "told")

    def __init__(self) -> None:
        self.entries: Entries = {}
        self.id = ""
        self.sent = False
        self.landed = False
        self.halved: set[str] = set()
        self.told: set[str] = set()


class Sealed:
    """What a buffer took in during one interval, in pages.

    Args:
        entries: what was taken in.
        slot_of: of which kind a counter is; no page has counters of two kinds.
        slots: how many kinds there are.
        size: how many counters a page has, about.
    """

    def __init__(
        self, entries: Entries, slot_of: Callable[[str], int], slots: int, size: int
    ) -> None:
        self.entries = entries
        self._slot_of = slot_of
        self._parts = -(-len(entries) // (slots * size))
        self._pages = tuple(Page() for _ in range(slots * self._parts))
        for entry, by in entries.items():
            self.page(entry).entries[entry] = by

    def page(self, entry: Entry) -> Page:
        """The page of an entry. What a text is hashed to is the same in all of a process."""
        key = key_of(entry)
        return self._pages[self._slot_of(key) * self._parts + hash(key) % self._parts]

    def __iter__(self) -> Iterator[Page]:
        """The pages that are not known to be counted."""
        return (page for page in self._pages if page.entries and not page.landed)
