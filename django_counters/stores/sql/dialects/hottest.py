"""The statements that find counters that change at present, without reading all of them."""

from __future__ import annotations

from dataclasses import dataclass

from django_counters.stores.sql.dialects.ledger import COUNTER, DELTAS, SHARDS

SLOTS = "django_counters_slottedcounter"


@dataclass(frozen=True)
class Hottest:
    """The statements that find counters. Each ends with how many rows at most, as a parameter.

    Attributes:
        patience: how long a statement may take. Empty where none is ever given up.
        hurry: take no longer than that, within the transaction. Parameters: a duration.
        changed: totals that were changed lately, the latest first. Parameters: how long that is.
            Rows: key. There is no index for it, because writers would pay for that: it reads the
            whole table.
        sharded: rows: key, what waits in shards, the most first.
        slotted: rows: content type, name, record id, what waits in slots, the most first.
        entered: rows: key, sum of its entries, the most first. Parameters: a moment and a token
            from which on entries count, and how many entries, the latest first.
    """

    patience: str
    hurry: str
    changed: str
    sharded: str
    slotted: str
    entered: str


def hottest(recently: str, moment: str, token: str, patience: str = "", hurry: str = "") -> Hottest:
    """The statements of a database; ``recently`` is a moment, from how long ago that is."""
    latest = (
        f"SELECT key, delta FROM {DELTAS} WHERE created_at >= {moment} AND token >= {token} "
        "ORDER BY token DESC LIMIT %s"
    )
    return Hottest(
        patience=patience,
        hurry=hurry,
        changed=(
            f"SELECT key FROM {COUNTER} WHERE updated_at > {recently} "
            "ORDER BY updated_at DESC LIMIT %s"
        ),
        sharded=(
            f"SELECT key, SUM(value) FROM {SHARDS} "
            "GROUP BY key ORDER BY ABS(SUM(value)) DESC, key LIMIT %s"
        ),
        slotted=(
            f"SELECT record_type_id, name, record_id, SUM(count) FROM {SLOTS} WHERE slot >= 0 "
            "GROUP BY record_type_id, name, record_id "
            "ORDER BY ABS(SUM(count)) DESC, record_type_id, name, record_id LIMIT %s"
        ),
        entered=(
            f"SELECT key, SUM(delta) FROM ({latest}) e "
            "GROUP BY key ORDER BY ABS(SUM(delta)) DESC, key LIMIT %s"
        ),
    )
