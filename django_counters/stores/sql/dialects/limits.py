"""The statements of rate limits."""

from __future__ import annotations

from functools import cached_property

from django_counters.stores.sql.dialects.spelling import Spelling
from django_counters.stores.sql.dialects.tables import LIMITS


class Limits:
    """Takes from buckets. Times are microseconds, "now" is the server's clock."""

    def __init__(self, spelling: Spelling) -> None:
        self._in = spelling

    @cached_property
    def take(self) -> str:
        """Make a bucket, or move its arrival, unless it has too little left.

        One statement, so that nobody comes between the look and the change. Whoever waits for the
        row evaluates ``now`` when it has it, not before. An arrival that is further ahead than any
        can be is of a clock that was set back: the bucket counts as nearly empty, or it would
        refuse until the clock is there again. Parameters by name: ``digest``, ``cost``, ``full``
        (what a full bucket holds). Rows: how far ahead of now the arrival is; none where there was
        too little.
        """
        now = self._in.microseconds
        strange = f"l.arrival > {now} + %(full)s + %(full)s"
        return (
            f"INSERT INTO {LIMITS} AS l (digest, arrival) VALUES (%(digest)s, {now} + %(cost)s) "
            "ON CONFLICT (digest) DO UPDATE SET arrival = CASE "
            f"WHEN l.arrival <= {now} THEN {now} WHEN {strange} "
            f"THEN {now} + %(full)s - %(cost)s ELSE l.arrival END + %(cost)s "
            f"WHERE l.arrival + %(cost)s <= {now} + %(full)s OR {strange} "
            f"RETURNING arrival - {now}"
        )

    @cached_property
    def ahead(self) -> str:
        """How far ahead of now the arrival of a bucket is. Parameters: digest."""
        return f"SELECT arrival - {self._in.microseconds} FROM {LIMITS} WHERE digest = %s"

    @cached_property
    def prune(self) -> str:
        """Forget some buckets that are full again, in the order of their digests.

        Parameters: the last digest of the page before, how many at most. Rows: digest.
        """
        full = f"WHERE digest > %s AND arrival <= {self._in.microseconds} ORDER BY digest LIMIT %s"
        return self._in.delete_some(LIMITS, full, "digest")
