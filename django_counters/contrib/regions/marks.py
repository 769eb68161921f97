"""How far the incarnations of a region are, as one database knows it."""

from __future__ import annotations

from typing import NamedTuple

from django_counters.contrib.regions.sql import CLOSED, source_of, store_of
from django_counters.registry import registry
from django_counters.stores.sql.positions import Position


class Mark(NamedTuple):
    """How far an incarnation is, in numbers.

    Attributes:
        position: the last version that was copied; at home the clock.
        seen: the clock that was seen together with it.
        timeline: the life in which it was, or `CLOSED`.
    """

    position: int = 0
    seen: int = 0
    timeline: str = ""

    @classmethod
    def of(cls, at: Position) -> Mark:
        """The same of a row."""
        position, _, seen = at.position.partition("/")
        return cls(int(position or 0), int(seen or position or 0), at.timeline)


Marks = dict[int, Mark]


def marks_of(region: str, using: str) -> Marks:
    """How far each incarnation of a region is, in a database."""
    found = registry.positions(using).of(source_of(region))
    return {int(part): Mark.of(at) for part, at in found.items()}


def present(marks: Marks) -> tuple[int, Mark]:
    """The incarnation that a region is in: the first one, where it has never published."""
    last = max(marks, default=1)
    return last, marks.get(last, Mark())


def living(region: str, using: str) -> tuple[int, str] | None:
    """The incarnation and the life that this region is in; None from a start of its server on.

    Until it has published, it may have been restored. That asks the others.
    """
    number, mark = present(marks_of(region, using))
    life = store_of(using).life()
    return (number, life) if mark.timeline == life else None


def is_ahead(known: Marks, last: int, mark: Mark) -> bool:
    """Whether a peer knows more than a region itself in its last incarnation: it was restored."""
    there = known.get(last, Mark())
    return max(known, default=0) > last or there.seen > mark.seen or there.timeline == CLOSED
