"""The ledger in MySQL: entries carry the epoch whose row their transaction holds.

An append holds the newest epoch in share mode until its transaction ends. A rollup opens the next
one, and folds the one before when nobody holds it any more: all its writers have ended then.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django_counters.stores.sql.dialects.ledger import (
    ADJUSTMENT,
    Appends,
    Entry,
    Following,
    Inquiry,
    Ledger,
    Rolling,
)
from django_counters.stores.sql.dialects.mysql.audit import CHAIN
from django_counters.stores.sql.dialects.mysql.taking import ROOM, TEXT
from django_counters.stores.sql.dialects.mysql.waiting import at_most
from django_counters.stores.sql.dialects.spelling import Spelling, Together
from django_counters.stores.sql.dialects.tables import ARCHIVE, COUNTER, DELTAS, HORIZON, TOKENS

EPOCHS = "django_counters_counterepoch"
INT8 = "-9223372036854775808 AND 9223372036854775807"
# As on PostgreSQL: added to the epoch of entries that do not fit into their total.
_NEVER = 2**62
# An append holds the newest epoch, and whatever comes while it waits for that: it may be folded and
# gone by then. The sum keeps the server from going backwards, from an end that is the end no more.
_NEWEST = f"SELECT MAX(id) INTO @djc_newest FROM {EPOCHS}; "
_EPOCH = (
    f"(SELECT MAX(e.id + 0) AS id FROM {EPOCHS} e WHERE e.id >= @djc_newest "
    "HAVING id IS NOT NULL LOCK IN SHARE MODE) p"
)
_HORIZON = f"(SELECT COALESCE(MAX(h.horizon), 0) FROM {HORIZON} h)"
_FENCE = f"(SELECT COALESCE(MAX(h.fence), 0) FROM {HORIZON} h)"
_WIDE = "CAST({} AS DECIMAL(40, 0))"


def tail_of(key: str) -> str:
    """What waits for one counter."""
    return (
        f"SELECT SUM(d.delta) AS waits FROM {DELTAS} d WHERE d.key = {key} "
        f"AND d.xid >= {_HORIZON} AND d.seq > {_FENCE}"
    )


def tails() -> str:
    """What waits for some counters. Parameters: keys."""
    return (
        f"SELECT d.key, NULL, d.delta FROM {DELTAS} d WHERE d.key IN %s "
        f"AND d.xid >= {_HORIZON} AND d.seq > {_FENCE}"
    )


class MysqlAppends(Appends):
    """The statements that write entries."""

    present = f"SELECT token, `key`, delta FROM {DELTAS} WHERE token IN %s"
    claimed = (
        "SELECT t.digest FROM JSON_TABLE(JSON_ARRAY%s, '$[*]' COLUMNS (k CHAR(128) PATH '$')) "
        f"AS u STRAIGHT_JOIN {TOKENS} t ON t.digest = UNHEX(u.k) LOCK IN SHARE MODE"
    )
    adjust = (
        f"{_NEWEST}INSERT INTO {DELTAS} (token, created_at, `key`, delta, kind, xid) "
        f"SELECT %s, %s, %s, %s, {ADJUSTMENT}, p.id FROM {_EPOCH}"
    )

    def __init__(self, spelling: Spelling) -> None:
        super().__init__(spelling)
        there = f"SELECT 1 FROM {COUNTER} o WHERE o.key = u.k AND o.outside IS NOT NULL"
        # Whoever has entries already is not held by others who append.
        self.open = (
            f"INSERT INTO {COUNTER} (`key`, value, updated_at, outside) "
            f"SELECT u.k, 0, {spelling.now}, 0 FROM {spelling.each('text')} "
            f"WHERE NOT EXISTS ({there}) {spelling.ordered('u.k')} ON DUPLICATE KEY UPDATE "
            f"outside = COALESCE({COUNTER}.outside, {COUNTER}.value)"
        )
        self.over = (
            f"SELECT t.key FROM {spelling.rows(k='text', d='numeric')} STRAIGHT_JOIN {COUNTER} t "
            f"ON u.k = t.key WHERE {_WIDE.format('t.value')} + u.d NOT BETWEEN {INT8} "
            "LIMIT 1"
        )
        given = spelling.rows(t="uuid", at="timestamptz", k="text", d="bigint")
        # Nothing but a token that is there can be ignored: all else was looked at before.
        self.add = (
            f"{_NEWEST}INSERT IGNORE INTO {DELTAS} (token, created_at, `key`, delta, kind, xid) "
            f"SELECT u.t, u.at, u.k, u.d, 0, p.id FROM {_EPOCH}, {given} ORDER BY u.t; "
            "SELECT ROW_COUNT()"
        )

    def arrange(self, entries: Sequence[Entry]) -> tuple[Any, ...]:
        """The parameters of entries."""
        return self._in.columns([[e.token.hex, str(e.created_at), e.key, e.delta] for e in entries])


class MysqlInquiry(Inquiry):
    """The statements that ask the ledger."""

    history = (
        "SELECT (SELECT COUNT(*) FROM JSON_TABLE(JSON_ARRAY%s, '$[*]' "
        "COLUMNS (k DATETIME(6) PATH '$')) m WHERE m.k <= d.created_at) AS n, "
        f"SUM(d.delta), COUNT(*) FROM {DELTAS} d "
        "WHERE d.key = %s AND d.created_at >= %s AND d.created_at < %s GROUP BY 1"
    )
    sample = (
        f"SELECT c.key FROM {COUNTER} c WHERE c.outside IS NOT NULL "
        "AND LEFT(c.key, CHAR_LENGTH(%(prefix)s)) = %(prefix)s ORDER BY RAND() LIMIT %(limit)s"
    )

    def _asked(self, key: str) -> str:
        return (
            f"('' IN %(keys)s OR {key} IN %(keys)s) "
            f"AND LEFT({key}, CHAR_LENGTH(%(prefix)s)) = %(prefix)s"
        )


_JUDGED = (
    "SELECT s.k, s.d, s.n, s.waited, "
    f"{_WIDE.format('COALESCE(t.value, 0)')} + s.d BETWEEN {INT8} AND s.d BETWEEN {INT8} AS fits "
    "FROM (SELECT e.key AS k, SUM(e.delta) AS d, COUNT(*) AS n, "
    f"MAX(e.xid >= {_NEVER}) AS waited FROM {DELTAS} e "
    f"WHERE (e.xid = %(horizon)s OR e.xid >= {_NEVER}) AND e.seq > %(fence)s GROUP BY e.key) s "
    f"LEFT JOIN {COUNTER} t ON t.key = s.k"
)


class MysqlRolling(Rolling):
    """The statements of the rollup of the ledger. It folds the epoch that is the horizon."""

    # Whatever was committed before this moment is of an epoch that was there.
    mark = f"SELECT UTC_TIMESTAMP(6), MAX(id) + 1 FROM {EPOCHS}"
    first_epoch = f"SELECT MIN(id) FROM {EPOCHS}"
    # From a horizon that is no epoch nothing goes on: somebody has moved it. A rebase holds the
    # horizon: an epoch that began beside it would let entries come below its fence.
    next_epoch = (
        f"INSERT IGNORE INTO {EPOCHS} (id) SELECT h.horizon + 1 FROM {HORIZON} h "
        f"WHERE h.id = 1 AND EXISTS (SELECT 1 FROM {EPOCHS} e WHERE e.id = h.horizon) "
        "FOR UPDATE SKIP LOCKED"
    )
    # What is folded cannot change any more: so the same is summed twice.
    fold = Together(
        f"{ROOM}SELECT id FROM {EPOCHS} WHERE id = %(horizon)s FOR UPDATE NOWAIT; "
        "SELECT COALESCE(SUM(IF(j.fits, j.n, 0)), 0), COALESCE(SUM(j.fits), 0), "
        "COALESCE(CONCAT('[', GROUP_CONCAT(IF(j.fits, NULL, JSON_QUOTE(j.k))), ']'), '[]'), "
        "COALESCE(CONCAT('[', GROUP_CONCAT(IF(j.fits AND j.waited, JSON_QUOTE(j.k), NULL)), ']'), "
        f"'[]') INTO @djc_entries, @djc_counters, @djc_stuck, @djc_freed FROM ({_JUDGED}) j; "
        # Whoever holds a total may want what is held here.
        f"{at_most(1)}INSERT INTO {COUNTER} (`key`, value, updated_at, outside) "
        f"SELECT j.k, j.d, UTC_TIMESTAMP(6), 0 FROM ({_JUDGED}) j "
        "WHERE NOT JSON_CONTAINS(@djc_stuck, JSON_QUOTE(j.k)) ORDER BY CAST(j.k AS BINARY) "
        f"ON DUPLICATE KEY UPDATE outside = COALESCE({COUNTER}.outside, {COUNTER}.value), "
        f"updated_at = VALUES(updated_at), value = {COUNTER}.value + VALUES(value); "
        f"DELETE FROM {EPOCHS} WHERE id = %(horizon)s; "
        f"UPDATE {HORIZON} SET horizon = horizon + 1 "
        "WHERE id = 1 AND horizon = %(horizon)s AND fence = %(fence)s; "
        "SELECT %(horizon)s + 1, @djc_entries, @djc_counters, @djc_stuck, @djc_freed "
        "FROM DUAL WHERE ROW_COUNT() > 0"
    )
    hold = (
        f"UPDATE {DELTAS} SET xid = xid + {_NEVER} WHERE `key` IN %(keys)s "
        "AND xid >= %(horizon)s AND xid < %(edge)s AND seq > %(fence)s"
    )
    release = (
        f"UPDATE {DELTAS} SET xid = xid - {_NEVER} WHERE `key` IN %(keys)s AND xid >= {_NEVER}"
    )
    keep_out = f"SELECT id FROM {EPOCHS} FOR UPDATE"
    restart = Together(
        f"SELECT MAX(id) INTO @djc_edge FROM {EPOCHS}; "
        f"DELETE FROM {EPOCHS} WHERE id < @djc_edge; "
        f"SELECT @djc_edge, COALESCE(MAX(seq), 0) FROM {DELTAS}"
    )

    def __init__(self, spelling: Spelling) -> None:
        due = (
            f"SELECT x.k, SUM(x.d) AS d FROM (SELECT e.key AS k, e.delta AS d FROM {DELTAS} e "
            f"UNION ALL SELECT a.key, a.delta_sum FROM {ARCHIVE} a WHERE a.partition = '' UNION "
            f"ALL SELECT c.key, 0 FROM {COUNTER} c WHERE c.outside IS NOT NULL) x GROUP BY x.k"
        )
        differing = (
            f"SELECT due.k, due.d FROM ({due}) due LEFT JOIN {COUNTER} t ON t.key = due.k WHERE "
            "t.key IS NULL OR t.outside IS NULL OR "
            f"{_WIDE.format('t.value')} <> t.outside + due.d"
        )
        gone = (
            f"JSON_TABLE(@djc_rows, '$[*]' COLUMNS (k {TEXT} PATH '$[0]', "
            "d BIGINT PATH '$[1]' ERROR ON ERROR)) AS u"
        )
        self.recompute = Together(
            f"{ROOM}SELECT JSON_ARRAYAGG(JSON_ARRAY(v.k, v.d)), COUNT(*) "
            f"INTO @djc_rows, @djc_due FROM ({differing}) v; "
            # A list is never longer than a packet. One that was cut off is an error.
            "SET @djc_rows = IF(COALESCE(JSON_LENGTH(@djc_rows), 0) = @djc_due, @djc_rows, 'cut'); "
            f"INSERT INTO {COUNTER} (`key`, value, updated_at, outside) "
            f"SELECT u.k, u.d, {spelling.now}, 0 FROM {gone} {spelling.ordered('u.k')} "
            f"ON DUPLICATE KEY UPDATE outside = COALESCE({COUNTER}.outside, {COUNTER}.value), "
            f"value = CAST({COUNTER}.outside AS SIGNED) + VALUES(value), "
            f"updated_at = VALUES(updated_at); SELECT u.k FROM {gone}"
        )


def _written(plus: int) -> str:
    """Entries of epochs that are folded; ``plus`` is added to their numbers."""
    epoch = f"d.xid - {plus}" if plus else "d.xid"
    return (
        f"SELECT d.token, d.key, d.delta, d.kind, {epoch} AS xid, d.seq FROM {DELTAS} d "
        f"WHERE d.xid >= %(xid)s + {plus} AND d.xid < {_HORIZON} + {plus} AND d.seq > {_FENCE} "
        f"AND (d.xid > %(xid)s + {plus} OR d.seq > %(seq)s)"
    )


class MysqlFollowing(Following):
    """The statements of those who follow the ledger: they see what is rolled up."""

    _edge = f"SELECT {_FENCE} AS f, {_HORIZON} AS h"
    since = (
        f"SELECT edge.f, edge.h, ({Following.dropped_as_of('CAST(edge.f AS CHAR)')}), "
        f"EXISTS (SELECT 1 FROM {DELTAS} WHERE token = %(token)s AND created_at = %(created_at)s), "
        f"e.* FROM ({_edge}) edge LEFT JOIN (SELECT * FROM ({_written(0)} UNION ALL "
        f"{_written(_NEVER)}) w ORDER BY w.xid, w.seq LIMIT %(most)s) e ON true "
        "ORDER BY e.xid, e.seq"
    )
    end = f"SELECT {_FENCE}, {_HORIZON}, 0"

    def __init__(self) -> None:
        fence = f"SELECT {_FENCE} AS f"
        self.begin = f"SELECT f, ({self.dropped_as_of('CAST(f AS CHAR)')}) FROM ({fence}) s"


class MysqlLedger(Ledger):
    """All statements of the ledger."""

    prepare = (
        f"CREATE INDEX {DELTAS}_tail ON {DELTAS} (`key`, xid)",
        f"CREATE INDEX {DELTAS}_epoch ON {DELTAS} (xid, seq)",
        f"ALTER TABLE {DELTAS} ADD UNIQUE {DELTAS}_seq (seq), "
        "MODIFY seq bigint NOT NULL AUTO_INCREMENT",
        f"CREATE TABLE IF NOT EXISTS {EPOCHS} (id bigint PRIMARY KEY) ENGINE = InnoDB",
        f"INSERT IGNORE INTO {EPOCHS} (id) VALUES (0)",
        f"CREATE TABLE IF NOT EXISTS {CHAIN} (id bigint PRIMARY KEY) ENGINE = InnoDB",
        f"INSERT IGNORE INTO {CHAIN} (id) VALUES (1)",
    )

    def __init__(self, spelling: Spelling) -> None:
        self.appends = MysqlAppends(spelling)
        self.inquiry = MysqlInquiry(spelling)
        self.rolling = MysqlRolling(spelling)
        self.following = MysqlFollowing()
        # The last one stays: a rebase goes by the number of the last one.
        old = (
            f"FROM {DELTAS} WHERE created_at < @djc_before AND xid < @djc_horizon "
            "AND seq < @djc_last"
        )
        # Asked for once: an append between both texts would let the last one before it be old.
        self.forget = (
            "SET @djc_before = %s; SELECT horizon INTO @djc_horizon "
            f"FROM {HORIZON} WHERE id = 1 FOR UPDATE; "
            f"SELECT MAX(seq) INTO @djc_last FROM {DELTAS}; "
            f"INSERT INTO {ARCHIVE} (`partition`, `key`, entries, delta_sum) "
            f"SELECT '', x.k, x.n, x.d FROM (SELECT `key` AS k, COUNT(*) AS n, SUM(delta) AS d "
            f"{old} GROUP BY `key`) x ON DUPLICATE KEY UPDATE "
            "entries = entries + VALUES(entries), delta_sum = delta_sum + VALUES(delta_sum)",
            f"SET @djc_before = %s; SELECT delta, xid, seq {old} FOR UPDATE; DELETE {old}",
        )
