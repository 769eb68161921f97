"""The only thing that a region changes in another one: in which life its positions move.

A label is changed from what was read before, in the life of the server that has said it. The new
life is asked for after that: so it is a later one, and no label comes back. An incarnation that has
ended stays so. So a change that is asked for again, by whomever and however late, changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

from django_counters.contrib.regions.marks import Mark, Marks, marks_of
from django_counters.contrib.regions.peer import PeerAway
from django_counters.contrib.regions.sql import CLOSED, Of, source_of, store_of
from django_counters.registry import registry


class Label(NamedTuple):
    """Which label of an incarnation was read, and which one it gets."""

    incarnation: int
    before: str
    after: str


class Known(NamedTuple):
    """A region as a database knows it, and the life of its server."""

    marks: Marks
    life: str


class Labelled(Protocol):
    """A database whose labels can be read and changed."""

    def known(self, region: str) -> Known:
        """The labels of a region there."""

    def relabel(self, region: str, labels: list[Label], life: str) -> Marks:
        """Change all of these labels or none, in the life of its server; the marks after that."""


def greet(there: Labelled, of: Of, life: Callable[[], str]) -> Marks:
    """See `Peer.greet`."""
    known = there.known(of.region)
    before = known.marks.get(of.incarnation, Mark()).timeline
    if before == CLOSED:
        return known.marks
    return there.relabel(of.region, [Label(of.incarnation, before, life())], known.life)


def close(there: Labelled, region: str, ended: range, life: Callable[[], str]) -> None:
    """See `Peer.close`."""
    known = there.known(region)
    after = {**dict.fromkeys(ended, CLOSED), ended.stop: life()}
    labels = [
        Label(number, known.marks.get(number, Mark()).timeline, label)
        for number, label in after.items()
    ]
    there.relabel(region, labels, known.life)


def known_in(region: str, using: str) -> Known:
    """A region as a database knows it."""
    return Known(marks_of(region, using), store_of(using).life())


def relabel_in(region: str, labels: list[Label], life: str, using: str) -> Marks:
    """Change labels in a database; a label that already has the new value is no problem.

    It holds the rows, so that no page moves them before it is known how far they are.

    Raises:
        PeerAway: one is another label by now, or the server was started. Nothing is changed.
    """
    store, positions = store_of(using), registry.positions(using)
    with store.transaction():
        if store.life() != life:
            raise PeerAway(reason="its server was started at this moment")
        for number, before, after in labels:
            ends = after == CLOSED or before != CLOSED
            if not ends or not positions.relabel(source_of(region), str(number), before, after):
                raise PeerAway(reason="another process greets it at this moment")
        return marks_of(region, using)
