"""The progress of a region's incarnations in one database."""

from __future__ import annotations

from typing import NamedTuple

from django_counters.contrib.regions.sql import CLOSED, source_of, store_of
from django_counters.registry import registry
from django_counters.stores.sql.positions import Position


class IncarnationMark(NamedTuple):
    """The progress of an incarnation.

    Attributes:
        position: the last copied version; at home the clock.
        seen: the clock that was read together with it.
        timeline: the life of the server at that time, or `CLOSED`.
    """

    position: int = 0
    seen: int = 0
    timeline: str = ""

    @classmethod
    def of(cls, at: Position) -> IncarnationMark:
        """Return the mark of a row."""
        position, _, seen = at.position.partition("/")
        return cls(int(position or 0), int(seen or position or 0), at.timeline)


Marks = dict[int, IncarnationMark]


def marks_of(region: str, using: str) -> Marks:
    """Return the mark of each incarnation of a region in a database."""
    positions = registry.positions(using).of(source_of(region))
    return {int(part): IncarnationMark.of(at) for part, at in positions.items()}


def present(marks: Marks) -> tuple[int, IncarnationMark]:
    """Return the present incarnation of a region, which is 1 before its first publication."""
    last = max(marks, default=1)
    return last, marks.get(last, IncarnationMark())


def living(region: str, using: str) -> tuple[int, str] | None:
    """Return the incarnation and the life of this region; None after a start of its server.

    It may have been restored then, until a publication has asked the other regions.
    """
    number, mark = present(marks_of(region, using))
    life = store_of(using).life()
    return (number, life) if mark.timeline == life else None


def is_ahead(known: Marks, last: int, mark: IncarnationMark) -> bool:
    """Return whether a peer has newer marks of a region than itself: then it was restored."""
    there = known.get(last, IncarnationMark())
    return max(known, default=0) > last or there.seen > mark.seen or there.timeline == CLOSED
