"""The SQL of rate limits: the statements of all databases, and the store."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property

from asgiref.sync import sync_to_async
from django.db import Error, connections

from django_counters.contrib.limits.algorithms import Draw, LimitState
from django_counters.errors import CounterUnavailable, OutcomeUnknown, ReadOnlyDatabase
from django_counters.stores.sql.dialects.mysql.statements import MADE, ROOM, delete_some
from django_counters.stores.sql.dialects.spelling import Spelling, Together
from django_counters.stores.sql.session import Session

LIMITS = "django_counters_counterlimit"


class LimitStatements:
    """The statements of buckets and logs. Times are microseconds, "now" is the server's clock.

    One statement reads and takes, so no transaction can come between. A transaction that waits for
    the row evaluates ``now`` when it has locked the row, not before. Named parameters: ``digest``,
    ``cost``, ``full``, ``span``. Rows: the taken amount, the microseconds until the end of the span
    or until enough is left, and those until more is left; no row if too little was left. ``take``
    and ``take_logged`` change the row; ``look`` and ``look_logged`` read the same columns.
    """

    def __init__(self, spelling: Spelling) -> None:
        self._in = spelling
        now = spelling.microseconds
        #: The end of the present span.
        self._start = f"(({now} / %(span)s + 1) * %(span)s)"

    @cached_property
    def take(self) -> str:
        """Make a bucket, or move its arrival, unless too little is left.

        If the clock was set back, an arrival can be further ahead than a full bucket allows. Such a
        bucket counts as nearly empty; otherwise it would refuse until the clock has caught up.
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
        """Make a log, or add an entry; drop the entries that are too old.

        Drops entries further ahead than the span as well: the clock was set back.
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
        """The amount in a log, and the time until enough of its entries are too old."""
        until = f"+ %(span)s - {self._in.microseconds}"
        moments = f"(SELECT moments FROM {LIMITS} WHERE digest = %(digest)s)"
        return (
            "SELECT used, MIN(a) FILTER (WHERE gone + %(full)s >= used + %(cost)s) "
            f"{until}, MIN(a) {until} FROM (SELECT a, SUM(b) OVER (ORDER BY a) AS gone, "
            f"SUM(b) OVER () AS used FROM ({self._entries(moments)}) AS e) AS g GROUP BY used"
        )

    def _entries(self, column: str) -> str:
        """Select the entries of a log that count."""
        now = self._in.microseconds
        return (
            f"SELECT a, b FROM {self._in.pairs(column)} "
            f"WHERE a > {now} - %(span)s AND a <= {now} + %(span)s"
        )

    @cached_property
    def prune(self) -> str:
        """Delete some limits that are full again, in the order of their digests.

        Parameters: the previous page's last digest, the page size. Rows: digest.
        """
        full = f"WHERE digest > %s AND arrival <= {self._in.microseconds} ORDER BY digest LIMIT %s"
        return self._delete_some(full)

    def _delete_some(self, which: str) -> str:
        return self._in.delete_some(LIMITS, which, "digest")


_OF = f"FROM {LIMITS} WHERE digest = %(digest)s"
_CHANGED = MADE.removeprefix("SELECT 1 FROM DUAL WHERE ")


class MysqlLimits(LimitStatements):
    """The same in MySQL and MariaDB."""

    def __init__(self, spelling: Spelling) -> None:
        super().__init__(spelling)
        self._start = f"(({spelling.microseconds} DIV %(span)s + 1) * %(span)s)"

    @cached_property
    def take(self) -> str:
        """Make a bucket, or move its arrival, unless too little is left."""
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
        """Make a log, or add an entry; drop the entries that are too old."""
        now, pairs = self._in.microseconds, self._in.pairs("moments")
        # Makes the row if needed, and locks it.
        locked = (
            f"INSERT INTO {LIMITS} (digest, arrival, moments) VALUES (%(digest)s, 0, '[]') "
            f"ON DUPLICATE KEY UPDATE arrival = {LIMITS}.arrival"
        )
        gathered = (
            "SELECT COALESCE(JSON_ARRAYAGG(JSON_ARRAY(u.a, u.b)), '[]'), COALESCE(SUM(u.b), 0) "
            f"INTO @djc_rows, @djc_used FROM {LIMITS} l, {self._in.pairs('l.moments')} "
            f"WHERE l.digest = %(digest)s AND {self._recent('u.a')} FOR UPDATE"
        )
        return Together(
            f"{ROOM}{locked}; {gathered}; UPDATE {LIMITS} SET arrival = {now} + %(span)s, "
            f"moments = JSON_ARRAY_APPEND(@djc_rows, '$', JSON_ARRAY({now}, %(cost)s)) "
            f"WHERE digest = %(digest)s AND @djc_used + %(cost)s <= %(full)s; "
            f"SELECT (SELECT SUM(b) FROM {pairs}), 0, (SELECT MIN(a) FROM {pairs}) + %(span)s "
            f"- {now} {_OF} AND ROW_COUNT() > 0"
        )

    @cached_property
    def look_logged(self) -> str:
        """The amount in a log, and the time until enough of its entries are too old."""
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

    def _delete_some(self, which: str) -> str:
        # Digits compare correctly with a column of any collation.
        return delete_some(LIMITS, which, "digest", named_by={"digest": "VARCHAR(255)"})


_OF_VENDOR: Mapping[str, type[LimitStatements]] = {"mysql": MysqlLimits}


_PAGE = 1000


class SqlLimits:
    """Takes from buckets and logs, in the caller's transaction if there is one."""

    def __init__(self, using: str) -> None:
        self._session = Session(using)
        statements = _OF_VENDOR.get(connections[using].vendor, LimitStatements)
        self._sql = statements(self._session.dialect)

    def take(self, draw: Draw) -> LimitState:
        """Take the cost if enough is left.

        Waits for other transactions that have locked the row. In the caller's transaction the row
        stays locked until it ends.

        Raises:
            CounterUnavailable: the database is unavailable or read-only, the row was locked for too
                long, or the answer was lost. The cost may have been taken.
        """
        try:
            with self._apart():
                return self._take(draw)
        except (OutcomeUnknown, ReadOnlyDatabase) as error:
            raise self._unavailable(error) from error
        except Error as error:
            if self._session.dialect.busy(error):
                raise self._unavailable(error) from error
            raise

    async def atake(self, draw: Draw) -> LimitState:
        """`take` in a thread, like the rest of Django's async ORM."""
        return await sync_to_async(self.take)(draw)

    def prune(self) -> int:
        """Delete the rows of limits that are full again; return their number."""
        gone, last = 0, b""
        while rows := self._session.run(self._sql.prune, (last, _PAGE)):
            gone += len(rows)
            last = max(bytes(digest) for (digest,) in rows)
        return gone

    def _apart(self) -> AbstractContextManager[None]:
        """Return a savepoint in the caller's transaction, so that an error leaves it usable."""
        own = self._session.commits_at_once()
        return nullcontext() if own else self._session.all_or_nothing()

    def _take(self, draw: Draw) -> LimitState:
        sql, params = self._sql, draw._asdict()
        logged = params.pop("logged")
        taken = self._session.run(sql.take_logged if logged else sql.take, params)
        if taken:
            return LimitState(True, *map(int, taken[0]))
        rows = self._session.run(sql.look_logged if logged else sql.look, params, writes=False)
        # Without a row the limit is full again since the refusal.
        return LimitState(False, *map(int, rows[0])) if rows else LimitState(False, 0, 0, 0)

    def _unavailable(self, error: Exception) -> CounterUnavailable:
        reason = str(error).strip().partition("\n")[0].rstrip(".")
        return CounterUnavailable(using=self._session.using, reason=reason)
