"""The statements of rate limits."""

from __future__ import annotations

from functools import cached_property

from django_counters.stores.sql.dialects.spelling import Spelling
from django_counters.stores.sql.dialects.tables import LIMITS


class Limits:
    """Takes from buckets and logs. Times are microseconds, "now" is the server's clock.

    Each takes by one statement, so that no transaction comes between the look and the change. A
    transaction that waits for the row evaluates ``now`` when it has it, not before. Parameters by
    name: ``digest``, ``cost``, ``full``, ``span``. Rows: how much is taken by now, the microseconds
    until the end of the span or until there is enough, and those until there is more; none where
    there was too little. ``take`` and ``take_logged`` change something, ``look`` and
    ``look_logged`` say the same of the present state.
    """

    def __init__(self, spelling: Spelling) -> None:
        self._in = spelling
        now = spelling.microseconds
        #: The end of the present span.
        self._start = f"(({now} / %(span)s + 1) * %(span)s)"

    @cached_property
    def take(self) -> str:
        """Make a bucket, or move its arrival, unless it has too little left.

        An arrival that is further ahead than any can be is of a clock that was set back: the bucket
        counts as nearly empty, or it would refuse until the clock is there again.
        """
        start = self._start
        strange = f"l.arrival > {start} + %(full)s + %(full)s"
        return (
            f"INSERT INTO {LIMITS} AS l (digest, arrival) VALUES (%(digest)s, {start} + %(cost)s) "
            "ON CONFLICT (digest) DO UPDATE SET arrival = CASE "
            f"WHEN l.arrival <= {start} THEN {start} WHEN {strange} "
            f"THEN {start} + %(full)s - %(cost)s ELSE l.arrival END + %(cost)s "
            f"WHERE l.arrival + %(cost)s <= {start} + %(full)s OR {strange} "
            f"RETURNING {self._ahead}"
        )

    @cached_property
    def look(self) -> str:
        """The amount in a bucket."""
        return f"SELECT {self._ahead} FROM {LIMITS} WHERE digest = %(digest)s"

    @property
    def _ahead(self) -> str:
        until = f"{self._start} - {self._in.microseconds}"
        return f"arrival - {self._start}, {until}, {until}"

    @cached_property
    def take_logged(self) -> str:
        """Make a log, or add an entry, and forget those that are too old.

        So are those that are further ahead than the span: the clock was set back.
        """
        now, entry, array = self._in.microseconds, self._entries("l.moments"), self._in.array
        return (
            f"INSERT INTO {LIMITS} AS l (digest, arrival, moments) VALUES "
            f"(%(digest)s, {now} + %(span)s, {array}({array}({now}, %(cost)s))) "
            f"ON CONFLICT (digest) DO UPDATE SET arrival = {now} + %(span)s, moments = "
            f"(SELECT {self._in.gathered}({array}(a, b)) FROM "
            f"({entry} UNION ALL SELECT {now}, %(cost)s) AS e) "
            f"WHERE (SELECT COALESCE(SUM(b), 0) FROM ({entry}) AS e) + %(cost)s <= %(full)s "
            f"RETURNING (SELECT SUM(b) FROM {self._in.pairs('moments')}), 0, "
            f"(SELECT MIN(a) FROM {self._in.pairs('moments')}) + %(span)s - {now}"
        )

    @cached_property
    def look_logged(self) -> str:
        """The amount in a log, and when enough of its entries are too old."""
        until = f"+ %(span)s - {self._in.microseconds}"
        moments = f"(SELECT moments FROM {LIMITS} WHERE digest = %(digest)s)"
        return (
            "SELECT used, MIN(a) FILTER (WHERE gone + %(full)s >= used + %(cost)s) "
            f"{until}, MIN(a) {until} FROM (SELECT a, SUM(b) OVER (ORDER BY a) AS gone, "
            f"SUM(b) OVER () AS used FROM ({self._entries(moments)}) AS e) AS g GROUP BY used"
        )

    def _entries(self, column: str) -> str:
        """Those entries of a log that count."""
        now = self._in.microseconds
        return (
            f"SELECT a, b FROM {self._in.pairs(column)} "
            f"WHERE a > {now} - %(span)s AND a <= {now} + %(span)s"
        )

    @cached_property
    def prune(self) -> str:
        """Forget some limits of which nothing is taken any more, in the order of their digests.

        Parameters: the last digest of the page before, how many at most. Rows: digest.
        """
        full = f"WHERE digest > %s AND arrival <= {self._in.microseconds} ORDER BY digest LIMIT %s"
        return self._in.delete_some(LIMITS, full, "digest")
