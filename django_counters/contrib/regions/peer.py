"""The interface to another region."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Protocol

from django_counters.contrib.regions.marks import Marks
from django_counters.contrib.regions.sql import EntryPage, Incarnation
from django_counters.exceptions import CounterError


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
