"""Adjustments of counters, and who made them."""

from __future__ import annotations

from typing import Required, TypedDict
from uuid import UUID

from django_counters.tokens import Token

#: How many counters a transaction adjusts at once.
STEP = 100


class ResetOptions(TypedDict, total=False):
    """Keyword arguments of `CounterManager.adjust`, which documents them, but the amount."""

    expected: int | None
    reason: Required[str]
    actor: Required[object]
    approver: object
    case: str
    request_id: str
    token: str | UUID | Token | None
    allow_below_floor: bool
    using: str | None


class AdjustOptions(ResetOptions, total=False):
    """Keyword arguments of `CounterManager.adjust`."""

    to: int | None
    by: int | None
