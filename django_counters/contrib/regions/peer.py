"""The questions of a region to another one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Protocol

from django_counters.contrib.regions.marks import Marks
from django_counters.contrib.regions.sql import Of, Page
from django_counters.exceptions import CounterError


class PeerAway(CounterError):
    """{reason}.

    A peer hasn't answered, or not in a way that can be believed. The caller names the peer, with
    `RegionAway` or in its result.
    """

    reason: str


class Peer(Protocol):
    """The database of another region. Questions change nothing there except where it is said.

    All of it raises errors of Django's databases, or a `CounterError`, `PeerAway` among them, where
    the peer cannot be asked. Then nothing is changed there, or all of it.
    """

    def marks(self, region: str) -> Marks:
        """How far each incarnation of a region is there."""

    def homes(self) -> Mapping[str, Marks]:
        """The marks of each region that this database is home of, and has published in."""

    def page(self, of: Of, since: int) -> Page | None:
        """The next entries after a version, in whole versions; None where there are no more."""

    def greet(self, of: Of, life: Callable[[], str]) -> Marks:
        """Let pages of a former life be of no use: no page of another life moves this incarnation.

        An incarnation that has ended stays so. A transaction that moves its position at this moment
        is waited for.

        Args:
            of: the incarnation of the region that asks.
            life: says in which life its server is. It is asked after the label was read.

        Returns:
            The labels of the region there, after that.

        Raises:
            PeerAway: another region has just greeted in another life.
        """

    def close(self, region: str, ended: range, life: Callable[[], str]) -> None:
        """End incarnations: pages of them are of no use. The next number is taken, in a life.

        Args:
            region: the region that asks.
            ended: which of its incarnations.
            life: as in `greet`.

        Raises:
            PeerAway: another region has just greeted or closed. Nothing is changed.
        """

    def heard(self, region: str) -> datetime | None:
        """When something of a region was last copied there, by the clock of that database."""
