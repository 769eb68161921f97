"""What a namespace or a field declares to be counted by period and by tag. Keeps no state."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import NamedTuple

OTHER = "~"
# Between the values of tags in a cell.
SEPARATOR = "|"
TAG_LENGTH = 60
# Of all values of one change together, encoded.
TAGS_LENGTH = 200
MOST_TAGS = 8


@dataclass(frozen=True, slots=True)
class Once:
    """That an actor counts once: for ever, or not again for some time.

    Attributes:
        time: after which an actor counts again; None for never, unless it is taken back.
    """

    time: timedelta | None = None


class Measure(NamedTuple):
    """What is counted beside a total.

    Attributes:
        name: the namespace, or ``app.Model.field``.
        per: the periods that are stored, the finest first.
        tags: how many values of each tag are kept apart; later ones are counted as ``~``.
        keep: for how many days a period is kept; for ever where it is not named.
        unique: by which periods distinct actors are counted.
        once: how often an actor counts; None for any number of times.
        top: the periods whose sums are ranked; they are among those that are stored.
        quotas: by how much a counter may be increased in each of some periods; these are stored.
    """

    name: str
    per: tuple[str, ...]
    tags: tuple[tuple[str, int], ...] = ()
    keep: tuple[tuple[str, int], ...] = ()
    unique: tuple[str, ...] = ()
    once: Once | None = None
    top: tuple[str, ...] = ()
    quotas: tuple[tuple[str, int], ...] = ()

    @property
    def stored(self) -> tuple[str, ...]:
        """The names under which its row says since when each of its periods is known."""
        return (*self.per, *map(unique_name, self.unique), *map(top_name, self.top))

    @property
    def counts_actors(self) -> bool:
        """Whether its value is how many actors there are."""
        return self.once is not None and self.once.time is None


def unique_name(period: str) -> str:
    """The name of the distinct actors of a period, in the row of a measure."""
    return f"unique {period}"


def top_name(period: str) -> str:
    """The name of the ranks of a period, in the row of a measure."""
    return f"top {period}"
