"""Ways to break the protocol, in the processes of one scene only: the book has to notice each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from django_counters.stores.base import Parcel

IGNORED = "a generation that somebody has landed is landed again"
UNCLAIMED = "cells of a generation are landed by whoever has read it"
FORGOTTEN = "one cell of a landing is left out"
LEFT_OUT = "one actor of a landing is left out"
REFUSED = "a generation is taken for one that somebody has landed"


def apply(name: str) -> None:
    """Break what ``name`` says; "" for nothing."""
    if not name:
        return
    if name in (UNCLAIMED, FORGOTTEN):
        _break_cells(name)
        return
    from django_counters.stores.sql.batches import SqlBatches

    if name == LEFT_OUT:
        land_members = SqlBatches.land_members

        def land_others(self: SqlBatches, kind: Any, members: Any, more: Any) -> None:
            land_members(self, kind, list(members)[1:], more)

        pytest.MonkeyPatch().setattr(SqlBatches, "land_members", land_others)
        return
    original = SqlBatches.claim

    def claim(self: SqlBatches, parcels: Sequence[Parcel]) -> set[str]:
        original(self, parcels)
        return {parcel.id for parcel in parcels} if name == IGNORED else set()

    pytest.MonkeyPatch().setattr(SqlBatches, "claim", claim)


def _break_cells(name: str) -> None:
    from django_counters.landing import Landed, ParcelLanding

    land, add_cells = ParcelLanding.land, ParcelLanding._add_cells

    def land_again(self: ParcelLanding, parcels: Sequence[Parcel], sums: Any = None) -> Landed:
        landed = land(self, parcels, sums)
        if not landed.parcels:
            add_cells(self, [parcel.cells for parcel in parcels], [], landed, [])
        return landed

    def add_others(self: ParcelLanding, parts: Any, *others: Any) -> None:
        add_cells(self, [dict(list(part.items())[1:]) for part in parts], *others)

    patch = pytest.MonkeyPatch()
    if name == UNCLAIMED:
        patch.setattr(ParcelLanding, "land", land_again)
    else:
        patch.setattr(ParcelLanding, "_add_cells", add_others)
