"""The progress of a region's incarnations, in this database and at peers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import NamedTuple

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


class Peer(ABC):
    """The database of another region. Only `greet` and `close` change it.

    If the peer is unavailable, all methods raise an error of Django's databases, or a
    `CounterError` such as `PeerAway`. Then nothing is changed there, or all of it.
    """

    def marks(self, region: str) -> Marks:
        """Return the mark of each incarnation of a region there."""
        return self.known(region).marks

    @abstractmethod
    def homes(self) -> Mapping[str, Marks]:
        """Return the marks of each region that has published in this database as its home."""

    @abstractmethod
    def page(self, of: Incarnation, since: int) -> EntryPage | None:
        """Return the next entries after a version, in whole versions; None if there are none."""

    @abstractmethod
    def heard(self, region: str) -> datetime | None:
        """Return when a region was last copied there, by that database's clock."""

    @abstractmethod
    def known(self, region: str) -> KnownRegion:
        """Return the labels of a region there."""

    @abstractmethod
    def relabel(self, region: str, labels: list[Label], life: str) -> Marks:
        """Change all of these labels or none, in this life of its server; return the marks.

        A label may already have the new value. Waits for transactions that move a position.

        Raises:
            PeerAway: a label has changed, or the server was started. Nothing is changed.
        """

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
        known = self.known(of.region)
        before = known.marks.get(of.incarnation, IncarnationMark()).timeline
        if before == CLOSED:
            return known.marks
        return self.relabel(of.region, [Label(of.incarnation, before, life())], known.life)

    def close(self, region: str, ended: range, life: Callable[[], str]) -> None:
        """End incarnations, which invalidates their pages. Reserve the next number, in a life.

        Args:
            region: the calling region.
            ended: its incarnations to end.
            life: as in `greet`.

        Raises:
            PeerAway: another process has just greeted or closed. Nothing is changed.
        """
        known = self.known(region)
        after = {**dict.fromkeys(ended, CLOSED), ended.stop: life()}
        labels = [
            Label(number, known.marks.get(number, IncarnationMark()).timeline, label)
            for number, label in after.items()
        ]
        self.relabel(region, labels, known.life)
