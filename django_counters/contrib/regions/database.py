"""A peer whose database this process can reach."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime

from django.db.models import QuerySet

from django_counters.contrib.regions import labels
from django_counters.contrib.regions.marks import IncarnationMark, Marks, marks_of
from django_counters.contrib.regions.sql import SOURCES, EntryPage, Incarnation, source_of, store_of
from django_counters.stores.sql.positions import Position
from django_counters.tables import CounterPosition


@dataclass(frozen=True, slots=True)
class DatabasePeer:
    """A peer in a database. See `Peer`.

    Attributes:
        alias: the name of the database in ``DATABASES``.
    """

    alias: str

    def marks(self, region: str) -> Marks:
        """Return the mark of each incarnation of a region there."""
        return marks_of(region, self.alias)

    def homes(self) -> Mapping[str, Marks]:
        """Return the marks of each region that has published in this database as its home.

        In a copy, the position is followed by "/" and the clock that was read with it.
        """
        homes: dict[str, Marks] = {}
        for row in self._rows(source__startswith=SOURCES).exclude(position__contains="/"):
            at = IncarnationMark.of(Position(row.position, row.timeline))
            homes.setdefault(row.source.removeprefix(SOURCES), {})[int(row.part)] = at
        # A copy's position that never moved looks the same, but has seen no clock.
        return {name: marks for name, marks in homes.items() if any(m.seen for m in marks.values())}

    def page(self, of: Incarnation, since: int) -> EntryPage | None:
        """Return the next entries after a version, in whole versions; None if there are none."""
        return store_of(self.alias).page(of, since)

    def greet(self, of: Incarnation, life: Callable[[], str]) -> Marks:
        """Invalidate pages of a former life."""
        return labels.greet(self, of, life)

    def close(self, region: str, ended: range, life: Callable[[], str]) -> None:
        """End incarnations, which invalidates their pages."""
        labels.close(self, region, ended, life)

    def heard(self, region: str) -> datetime | None:
        """Return when a region was last copied there."""
        moved = self._rows(source=source_of(region)).exclude(position="").order_by("-moved_at")
        return moved.values_list("moved_at", flat=True).first()

    def known(self, region: str) -> labels.KnownRegion:
        """Return the labels of a region there."""
        return labels.known_in(region, self.alias)

    def relabel(self, region: str, changes: list[labels.Label], life: str) -> Marks:
        """Change labels, if the server there is still in this life."""
        return labels.relabel_in(region, changes, life, self.alias)

    def _rows(self, **these: str) -> QuerySet[CounterPosition]:
        return CounterPosition._base_manager.using(self.alias).filter(**these)
