"""How much of a counter waits in a buffer, and where: for those who read it meanwhile."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from django_counters.write.page import Entries, Page


class Held(NamedTuple):
    """The state of one counter in a buffer.

    Attributes:
        amount: how much was not sent.
        sent: how much is in each page that may be counted by now.
        marks: where all of it is. While each of these stands, none of it was sent or landed.
        kept: the objects of the marks: no other thing takes its place in memory.
    """

    amount: int
    sent: tuple[tuple[Page, int], ...]
    marks: frozenset[tuple[int, bool]]
    kept: tuple[object, ...]


class Waiting(NamedTuple):
    """How much a buffer has: of how many entries, up and down together, and for how long."""

    entries: int
    amount: int
    age: float


# Where an amount is: among what was taken in together, and in which page of it.
Part = tuple[Entries, Page | None, int]


def held_in(parts: Iterable[Part]) -> Held:
    """The state of a counter whose amounts are there."""
    sent: list[tuple[Page, int]] = []
    amount = 0
    kept: list[tuple[object, bool]] = []
    for entries, page, by in parts:
        if page is not None and page.sent:
            sent.append((page, by))
            kept.append((page, True))
        else:
            amount += by
            kept.append((entries, False))
    marks = frozenset((id(where), is_sent) for where, is_sent in kept)
    return Held(amount, tuple(sent), marks, tuple(kept))
