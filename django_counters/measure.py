"""What a namespace or a field declares to be counted by period and by tag. Keeps no state."""

from __future__ import annotations

from typing import NamedTuple

OTHER = "~"
# Between the values of tags in a cell.
SEPARATOR = "|"
TAG_LENGTH = 60
# Of all values of one change together, encoded.
TAGS_LENGTH = 200
MOST_TAGS = 8


class Measure(NamedTuple):
    """What is counted beside a total.

    Attributes:
        name: the namespace, or ``app.Model.field``.
        per: the periods that are stored, the finest first.
        tags: how many values of each tag are kept apart; later ones are counted as ``~``.
        keep: for how many days a period is kept; for ever where it is not named.
    """

    name: str
    per: tuple[str, ...]
    tags: tuple[tuple[str, int], ...] = ()
    keep: tuple[tuple[str, int], ...] = ()
