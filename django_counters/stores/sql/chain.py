"""The chain of adjustments: each carries a digest of itself and of the one before."""

from __future__ import annotations

import hashlib
import json
from datetime import UTC
from typing import Any

from django_counters import clock
from django_counters.tables.adjustment import CounterAdjustment

# Part of every digest. Another list of columns, or another form of them, is another version.
VERSION = 1
INTEGERS = ("number", "before", "after", "delta")
TEXTS = (
    "field",
    "key",
    "reason",
    "case",
    "actor_id",
    "actor_name",
    "approver_id",
    "approver_name",
    "request_id",
)


def digest_of(before: str, row: CounterAdjustment) -> str:
    """Compute the digest of an adjustment: 64 hex digits.

    Args:
        before: the digest of the adjustment with the number before; empty for the first.
        row: the adjustment. Its own digest is not looked at.
    """
    moment = clock.meant(row.created_at).astimezone(UTC)
    whole: dict[str, Any] = {name: int(getattr(row, name)) for name in INTEGERS}
    whole |= {name: str(getattr(row, name)) for name in TEXTS}
    whole["entry"] = None if row.entry is None else str(row.entry)
    whole["created_at"] = moment.isoformat(timespec="microseconds")
    # ASCII alone: no two ways to write the same text.
    text = json.dumps([VERSION, before, whole], sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def holds(before: str, row: CounterAdjustment) -> bool:
    """Whether the digest of an adjustment is the right one."""
    if digest_of(before, row) == row.digest:
        return True
    if row.created_at.tzinfo is not None:
        return False
    # A naive moment may be one of two, an hour apart, and is stored without saying which.
    row.created_at = row.created_at.replace(fold=1 - row.created_at.fold)
    return digest_of(before, row) == row.digest
