"""Ways to break the protocol, in the processes of one scene only: the book has to notice each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

IGNORED = "a generation that somebody has landed is landed again"
UNCLAIMED = "cells of a generation are landed by whoever has read it"
FORGOTTEN = "one cell of a landing is left out"
REFUSED = "a generation is taken for one that somebody has landed"


def apply(name: str) -> None:
    """Break what ``name`` says; "" for nothing."""
    if not name:
        return
    if name in (UNCLAIMED, FORGOTTEN):
        _break_cells(name)
        return
    from django_counters.stores.sql.batches import SqlBatches

    original = SqlBatches.claim

    def claim(self: SqlBatches, batches: Sequence[Any]) -> set[str]:
        original(self, batches)
        return {batch.generation for batch in batches} if name == IGNORED else set()

    pytest.MonkeyPatch().setattr(SqlBatches, "claim", claim)


def _break_cells(name: str) -> None:
    from django_counters.upkeep.landing import Landed, Landing

    land, add_cells = Landing._land, Landing._add_cells

    def land_again(self: Landing, part: Any) -> Landed:
        landed = land(self, part)
        if not landed.generations:
            add_cells(self, [contents.cells for contents in part.held.values()], landed, [])
        return landed

    def add_others(self: Landing, parts: Any, landed: Landed, due: Any) -> None:
        add_cells(self, [dict(list(part.items())[1:]) for part in parts], landed, due)

    patch = pytest.MonkeyPatch()
    if name == UNCLAIMED:
        patch.setattr(Landing, "_land", land_again)
    else:
        patch.setattr(Landing, "_add_cells", add_others)
