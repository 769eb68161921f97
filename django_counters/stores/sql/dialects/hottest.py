"""The statements that find counters that change at present, without reading all of them."""

from __future__ import annotations

from functools import cached_property

from django_counters.stores.sql.dialects.spelling import Spelling
from django_counters.stores.sql.dialects.tables import COUNTER, DELTAS, SHARDS, SLOTS


class Hottest:
    """Finds counters. Each statement ends with how many rows at most, as a parameter."""

    def __init__(self, spelling: Spelling) -> None:
        self._in = spelling

    @cached_property
    def changed(self) -> str:
        """Keys of totals that were changed lately, the latest first. Parameters: seconds.

        There is no index for it, because writers would pay for that: it reads the whole table.
        """
        return (
            f"SELECT c.key FROM {COUNTER} c WHERE updated_at > {self._in.ago()} "
            "ORDER BY updated_at DESC LIMIT %s"
        )

    #: Rows: key, the amount that waits in shards, the most first.
    sharded = (
        f"SELECT s.key, SUM(s.value) FROM {SHARDS} s "
        "GROUP BY s.key ORDER BY ABS(SUM(s.value)) DESC, s.key LIMIT %s"
    )
    #: Rows: content type, name, record id, the amount that waits in slots, the most first.
    slotted = (
        f"SELECT record_type_id, name, record_id, SUM(count) FROM {SLOTS} WHERE slot >= 0 "
        "GROUP BY record_type_id, name, record_id "
        "ORDER BY ABS(SUM(count)) DESC, record_type_id, name, record_id LIMIT %s"
    )

    @cached_property
    def entered(self) -> str:
        """Rows: key, sum of its entries, the most first.

        Parameters: a moment and a token from which on entries count, and how many entries, the
        latest first.
        """
        moment, token = self._in.typed("%s", "timestamptz"), self._in.typed("%s", "uuid")
        latest = (
            f"SELECT d.key, d.delta FROM {DELTAS} d WHERE created_at >= {moment} "
            f"AND token >= {token} ORDER BY token DESC LIMIT %s"
        )
        return (
            f"SELECT e.key, SUM(e.delta) FROM ({latest}) e "
            "GROUP BY e.key ORDER BY ABS(SUM(e.delta)) DESC, e.key LIMIT %s"
        )
