"""Rate limits in MySQL."""

from __future__ import annotations

from functools import cached_property

from django_counters.stores.sql.dialects.limits import Limits
from django_counters.stores.sql.dialects.mysql.taking import MADE, ROOM
from django_counters.stores.sql.dialects.spelling import Spelling, Together
from django_counters.stores.sql.dialects.tables import LIMITS

_OF = f"FROM {LIMITS} WHERE digest = %(digest)s"
_CHANGED = MADE.removeprefix("SELECT 1 FROM DUAL WHERE ")


class MysqlLimits(Limits):
    """Takes from buckets and logs."""

    def __init__(self, spelling: Spelling) -> None:
        super().__init__(spelling)
        self._start = f"(({spelling.microseconds} DIV %(span)s + 1) * %(span)s)"

    @cached_property
    def take(self) -> str:
        """Make a bucket, or move its arrival, unless it has too little left."""
        start, arrival = self._start, f"{LIMITS}.arrival"
        strange = f"{arrival} > {start} + %(full)s + %(full)s"
        return (
            f"INSERT INTO {LIMITS} (digest, arrival) "
            f"SELECT %(digest)s, IF(LAST_INSERT_ID(1), {start} + %(cost)s, 0) "
            f"ON DUPLICATE KEY UPDATE arrival = IF({arrival} + %(cost)s <= {start} + %(full)s "
            f"OR {strange}, IF(LAST_INSERT_ID(1), CASE WHEN {arrival} <= {start} THEN {start} "
            f"WHEN {strange} THEN {start} + %(full)s - %(cost)s ELSE {arrival} END + %(cost)s, 0), "
            f"IF(LAST_INSERT_ID(0), 0, {arrival})); SELECT {self._ahead} {_OF} AND {_CHANGED}"
        )

    @cached_property
    def take_logged(self) -> str:
        """Make a log, or add an entry, and forget those that are too old."""
        now, pairs = self._in.microseconds, self._in.pairs("moments")
        # The row is held from here on, whether it was there or not.
        held = (
            f"INSERT INTO {LIMITS} (digest, arrival, moments) VALUES (%(digest)s, 0, '[]') "
            f"ON DUPLICATE KEY UPDATE arrival = {LIMITS}.arrival"
        )
        found = (
            "SELECT COALESCE(JSON_ARRAYAGG(JSON_ARRAY(u.a, u.b)), '[]'), COALESCE(SUM(u.b), 0) "
            f"INTO @djc_rows, @djc_used FROM {LIMITS} l, {self._in.pairs('l.moments')} "
            f"WHERE l.digest = %(digest)s AND {self._recent('u.a')} FOR UPDATE"
        )
        return Together(
            f"{ROOM}{held}; {found}; UPDATE {LIMITS} SET arrival = {now} + %(span)s, moments = "
            f"JSON_ARRAY_APPEND(@djc_rows, '$', JSON_ARRAY({now}, %(cost)s)) "
            f"WHERE digest = %(digest)s AND @djc_used + %(cost)s <= %(full)s; "
            f"SELECT (SELECT SUM(b) FROM {pairs}), 0, (SELECT MIN(a) FROM {pairs}) + %(span)s "
            f"- {now} {_OF} AND ROW_COUNT() > 0"
        )

    @cached_property
    def look_logged(self) -> str:
        """What is in a log, and when enough of its entries are too old."""
        until = f"+ %(span)s - {self._in.microseconds}"
        entries = (
            f"SELECT u.a, u.b FROM {LIMITS} l, {self._in.pairs('l.moments')} "
            f"WHERE l.digest = %(digest)s AND {self._recent('u.a')}"
        )
        enough = "CASE WHEN g.gone + %(full)s >= g.used + %(cost)s THEN g.a END"
        return (
            f"SELECT g.used, MIN({enough}) {until}, MIN(g.a) {until} FROM (SELECT e.a, "
            "SUM(e.b) OVER (ORDER BY e.a) AS gone, SUM(e.b) OVER () AS used "
            f"FROM ({entries}) e) g GROUP BY g.used"
        )

    def _recent(self, moment: str) -> str:
        now = self._in.microseconds
        return f"{moment} > {now} - %(span)s AND {moment} <= {now} + %(span)s"
