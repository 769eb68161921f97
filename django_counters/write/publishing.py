"""The lander of buffers that publish: a page becomes a message of a stream, which others count."""

from __future__ import annotations

from typing import NamedTuple
from uuid import UUID

from django_counters import clock
from django_counters.strategies.declaring import Recipe
from django_counters.tokens import mint, moment_of
from django_counters.types import Delta, sums_of
from django_counters.write.landing import Lander
from django_counters.write.outlets import Outlet, outlet_to
from django_counters.write.page import STILL, Page, deltas_in
from django_counters.write.publication import Publication


class _Open(NamedTuple):
    """The page that is published now, or was last."""

    page: Page
    publication: Publication


class Publisher(Lander):
    """Publishes pages. Each is counted once, because it has a number in the history of its buffer.

    Pages come one after the other: the next one comes when this one is published.

    Args:
        recipe: of the counters.
        using: the database that they are counted in.
        to: the stream.
    """

    size = 500

    def __init__(self, recipe: Recipe, using: str, to: str) -> None:
        super().__init__(recipe, using)
        self._to = to
        # Imports what it needs: the thread that lands pages must import nothing.
        outlet_to(to)

    def begin(self) -> None:
        """Begin a new history: earlier messages are another process's, or forgotten."""
        self._outlet: Outlet | None = None
        self._open: _Open | None = None
        self._before: Publication | None = None

    def land(self, page: Page) -> None:
        """Publish a page. It is counted when a consumer comes to it."""
        deltas = deltas_in(page.entries)
        if not deltas:
            return
        publication = self._publication(page, deltas)
        outlet = self._outlet = self._outlet or outlet_to(self._to)
        outlet.append(UUID(publication.incarnation), publication.signed_for(self._to))

    def _publication(self, page: Page, deltas: tuple[Delta, ...]) -> Publication:
        """The message of a page: the same one, if it may be in the stream."""
        if self._open and self._open.page is not page:
            # They come one after the other, so that one is published.
            self._before = self._open.publication
        elif self._open and self._open.publication.page == page.id:
            return self._open.publication
        incarnation, number = self._next(page)
        sums = {(str(delta.key), cell): by for delta in deltas for cell, by in sums_of(delta)}
        publication = Publication(page.id, self.using, incarnation, number, sums)
        self._open = _Open(page, publication)
        return publication

    def _next(self, page: Page) -> tuple[str, int]:
        """The place of a page that was not sent yet. One that was refused leaves its number
        free."""
        before = self._before
        if before is None or moment_of(UUID(page.id)) - before.at > STILL:
            return mint(clock.utc()).hex, 1
        return before.incarnation, before.number + 1

    def has_landed(self, page: Page) -> bool:
        """Whether it was counted: an unknown message in the stream is ours."""
        present = self._open
        if present is None or present.page is not page:
            return False
        publication = present.publication
        return int(self._position(publication.incarnation) or 0) >= publication.number
