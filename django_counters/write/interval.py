"""The increments of a buffer, from its first increment until it is sealed."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from django_counters.write.mapped import File
from django_counters.write.page import Entries, Entry, Place


# Its attributes are read for each increment: those of a tuple take longer.
@dataclass(frozen=True, slots=True, eq=False)
class Interval:
    """Increments that are sealed together, so that they have one place in the history.

    Attributes:
        place: that place. Nothing that is begun later has a lower number.
        file: the file with a copy of the entries; None where they are in memory alone.
        cells: the words of the file; None where there is none.
        entries: how much came of each counter.
        cell_of: which of the words is the amount of an entry.
        since: since when it takes something.
    """

    place: Place
    file: File | None = None
    cells: memoryview[int] | None = None
    entries: Entries = field(default_factory=dict)
    cell_of: dict[Entry, int] = field(default_factory=dict)
    since: float = field(default_factory=time.monotonic)

    @classmethod
    def begun(cls, place: Place, file: File | None) -> Interval:
        """An empty one, with a file or without."""
        if file is None:
            return cls(place)
        return cls(place._replace(made=file.head.made), file, file.cells)

    def has_room(self, most: int) -> bool:
        """Whether one more entry may come, where there may be so many."""
        return len(self.entries) < most and not (self.file and self.file.is_full)

    @property
    def is_kept(self) -> bool:
        """Whether all of it is in a file."""
        return self.file is not None or not self.entries


#: The state before the first increment. Nothing is ever added to it.
NOTHING = Interval(Place("", 0))
