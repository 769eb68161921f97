"""The progress of a region's incarnations, in this database and at peers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import NamedTuple, Protocol

from django_counters.contrib.regions.sql import CLOSED, EntryPage, Incarnation, source_of, store_of
from django_counters.errors import CounterError
from django_counters.registry import registry
from django_counters.stores.sql.positions import Position

# Marks.


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


# The interface of a peer.


class PeerAway(CounterError):
    """{reason}.

    A peer hasn't answered, or its answer is invalid. The caller adds the peer's name, by
    `RegionAway` or in its result.
    """

    reason: str


class Peer(Protocol):
    """The database of another region. Only `greet` and `close` change it.

    If the peer is unavailable, all methods raise an error of Django's databases, or a
    `CounterError` such as `PeerAway`. Then nothing is changed there, or all of it.
    """

    def marks(self, region: str) -> Marks:
        """Return the mark of each incarnation of a region there."""

    def homes(self) -> Mapping[str, Marks]:
        """Return the marks of each region that has published in this database as its home."""

    def page(self, of: Incarnation, since: int) -> EntryPage | None:
        """Return the next entries after a version, in whole versions; None if there are none."""

    def greet(self, of: Incarnation, life: Callable[[], str]) -> Marks:
        """Invalidate pages of a former life: only a page of this life moves this incarnation.

        An ended incarnation stays ended. Waits for a transaction that moves its position.

        Args:
            of: the calling region's incarnation.
            life: returns the life of its server. It is called after the label was read.

        Returns:
            The labels of the region there, after that.

        Raises:
            PeerAway: another process has just greeted in another life.
        """

    def close(self, region: str, ended: range, life: Callable[[], str]) -> None:
        """End incarnations, which invalidates their pages. Reserve the next number, in a life.

        Args:
            region: the calling region.
            ended: its incarnations to end.
            life: as in `greet`.

        Raises:
            PeerAway: another process has just greeted or closed. Nothing is changed.
        """

    def heard(self, region: str) -> datetime | None:
        """Return when a region was last copied there, by that database's clock."""


# Labels: the life of the server in which a region's positions move in another database.
#
# A region changes nothing else in another one. The change is a compare-and-set from the label that
# was read before, in the life of the server that returned it. The new life is read after that, so
# it is later, and no label comes back. An ended incarnation stays ended. So a repeated or late
# request changes nothing.


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
