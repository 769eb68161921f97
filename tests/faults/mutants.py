"""Ways to break the protocol, in the processes of one scene only: the book has to notice each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

IGNORED = "a generation that somebody has landed is landed again"
REFUSED = "a generation is taken for one that somebody has landed"


def apply(name: str) -> None:
    """Break what ``name`` says; "" for nothing."""
    if not name:
        return
    from django_counters.stores.sql.batches import SqlBatches

    original = SqlBatches.claim

    def claim(self: SqlBatches, batches: Sequence[Any]) -> set[str]:
        original(self, batches)
        return {batch.generation for batch in batches} if name == IGNORED else set()

    pytest.MonkeyPatch().setattr(SqlBatches, "claim", claim)
