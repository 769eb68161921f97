"""Labels: the life of the server in which a region's positions move in another database.

A region changes nothing else in another one. The change is a compare-and-set from the label that
was read before, in the life of the server that returned it. The new life is read after that, so it
is later, and no label comes back. An ended incarnation stays ended. So a repeated or late request
changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

from django_counters.contrib.regions.marks import IncarnationMark, Marks, marks_of
from django_counters.contrib.regions.peer import PeerAway
from django_counters.contrib.regions.sql import CLOSED, Incarnation, source_of, store_of
from django_counters.registry import registry


class Label(NamedTuple):
    """A change of an incarnation's label: the one that was read, and the new one."""

    incarnation: int
    before: str
    after: str


class KnownRegion(NamedTuple):
    """The marks of a region in a database, and the life of that database's server."""

    marks: Marks
    life: str


class Labelled(Protocol):
    """A database whose labels can be read and changed."""

    def known(self, region: str) -> KnownRegion:
        """Return the labels of a region there."""

    def relabel(self, region: str, labels: list[Label], life: str) -> Marks:
        """Change all of these labels or none, in this life of its server; return the marks."""


def greet(there: Labelled, of: Incarnation, life: Callable[[], str]) -> Marks:
    """See `Peer.greet`."""
    known = there.known(of.region)
    before = known.marks.get(of.incarnation, IncarnationMark()).timeline
    if before == CLOSED:
        return known.marks
    return there.relabel(of.region, [Label(of.incarnation, before, life())], known.life)


def close(there: Labelled, region: str, ended: range, life: Callable[[], str]) -> None:
    """See `Peer.close`."""
    known = there.known(region)
    after = {**dict.fromkeys(ended, CLOSED), ended.stop: life()}
    labels = [
        Label(number, known.marks.get(number, IncarnationMark()).timeline, label)
        for number, label in after.items()
    ]
    there.relabel(region, labels, known.life)


def known_in(region: str, using: str) -> KnownRegion:
    """Return the marks of a region in a database, and the life of the server."""
    return KnownRegion(marks_of(region, using), store_of(using).life())


def relabel_in(region: str, labels: list[Label], life: str, using: str) -> Marks:
    """Change labels in a database; return the marks. A label may already have the new value.

    Locks the rows, so that no page moves them before the marks are read.

    Raises:
        PeerAway: a label has changed, or the server was started. Nothing is changed.
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
