"""A region whose database this process can reach."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime

from django.db.models import QuerySet

from django_counters.contrib.regions import labels
from django_counters.contrib.regions.marks import Mark, Marks, marks_of
from django_counters.contrib.regions.sql import SOURCES, Of, Page, source_of, store_of
from django_counters.stores.sql.positions import Position
from django_counters.tables import CounterPosition


@dataclass(frozen=True, slots=True)
class DatabasePeer:
    """The questions of a region to another one, in its database. See `Peer`.

    Attributes:
        alias: the name of the database in ``DATABASES``.
    """

    alias: str

    def marks(self, region: str) -> Marks:
        """How far each incarnation of a region is there."""
        return marks_of(region, self.alias)

    def homes(self) -> Mapping[str, Marks]:
        """The marks of each region that this database is home of, and has published in.

        A copied entry has the clock that was seen behind its position.
        """
        found: dict[str, Marks] = {}
        for row in self._rows(source__startswith=SOURCES).exclude(position__contains="/"):
            at = Mark.of(Position(row.position, row.timeline))
            found.setdefault(row.source.removeprefix(SOURCES), {})[int(row.part)] = at
        # Elsewhere a position that never moved looks the same.
        return {
            name: marks for name, marks in found.items() if any(one.seen for one in marks.values())
        }

    def page(self, of: Of, since: int) -> Page | None:
        """The next entries after a version, in whole versions; None where there are no more."""
        return store_of(self.alias).page(of, since)

    def greet(self, of: Of, life: Callable[[], str]) -> Marks:
        """Let pages of a former life be of no use."""
        return labels.greet(self, of, life)

    def close(self, region: str, ended: range, life: Callable[[], str]) -> None:
        """End incarnations: pages of them are of no use."""
        labels.close(self, region, ended, life)

    def heard(self, region: str) -> datetime | None:
        """When something of a region was last copied there."""
        moved = self._rows(source=source_of(region)).exclude(position="").order_by("-moved_at")
        return moved.values_list("moved_at", flat=True).first()

    def known(self, region: str) -> labels.Known:
        """The labels of a region there."""
        return labels.known_in(region, self.alias)

    def relabel(self, region: str, changes: list[labels.Label], life: str) -> Marks:
        """Change labels, in the life of its server."""
        return labels.relabel_in(region, changes, life, self.alias)

    def _rows(self, **these: str) -> QuerySet[CounterPosition]:
        return CounterPosition._base_manager.using(self.alias).filter(**these)
