"""The ledger in SQLite: one table, and one writer at a time, so each entry is complete."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django_counters.ledger import sql
from django_counters.stores.sql.dialects.spelling import (
    ARCHIVE,
    COUNTER,
    DELTAS,
    HORIZON,
    TOKENS,
    Spelling,
)
from django_counters.stores.sql.dialects.sqlite.dialect import NOW

_EACH = "IN (SELECT value FROM json_each(%s))"
_HORIZON = f"(SELECT COALESCE(MAX(horizon), 0) FROM {HORIZON})"
# Also above the fence of a rebase, because the entries that gave the fence may be deleted.
_NUMBERED = (
    f"MAX((SELECT COALESCE(MAX(seq), 0) FROM {DELTAS}), "
    f"(SELECT COALESCE(MAX(fence), 0) FROM {HORIZON}))"
)


class SqliteAppends(sql.Appends):
    """The statements that write entries."""

    open = (
        f"INSERT INTO {COUNTER} AS t (key, value, updated_at, outside) "
        f"SELECT DISTINCT value, 0, {NOW}, 0 FROM json_each(%s) WHERE true "
        "ON CONFLICT (key) DO UPDATE SET outside = t.value WHERE t.outside IS NULL RETURNING 1"
    )
    add = (
        f"INSERT INTO {DELTAS} (token, created_at, key, delta, kind, xid, seq) "
        "SELECT json_extract(e.value, '$[0]'), json_extract(e.value, '$[1]'), "
        "json_extract(e.value, '$[2]'), json_extract(e.value, '$[3]'), 0, "
        f"{_HORIZON}, {_NUMBERED} + e.key + 1 "
        "FROM json_each(%s) e WHERE true ON CONFLICT DO NOTHING RETURNING token"
    )
    adjust = (
        f"INSERT INTO {DELTAS} (token, created_at, key, delta, kind, xid, seq) "
        f"SELECT %s, %s, %s, %s, {sql.ADJUSTMENT}, {_HORIZON}, {_NUMBERED} + 1 RETURNING 1"
    )
    present = f"SELECT token, key, delta FROM {DELTAS} WHERE token {_EACH}"
    claimed = f"SELECT hex(digest) FROM {TOKENS} WHERE hex(digest) {_EACH}"

    def __init__(self, spelling: Spelling) -> None:
        super().__init__(spelling)
        tail = f"COALESCE(({spelling.tail_of('t.key')}), 0)"
        self.over = (
            f"SELECT t.key FROM {COUNTER} t JOIN {spelling.rows(k='text', d='bigint')} "
            f"ON u.k = t.key WHERE typeof(t.value + {tail} + u.d) <> 'integer' LIMIT 1"
        )

    def arrange(self, entries: Sequence[sql.AppendedEntry]) -> tuple[Any, ...]:
        """The parameters of entries."""
        return self._in.columns([[e.token.hex, str(e.created_at), e.key, e.delta] for e in entries])


class SqliteInquiry(sql.Inquiry):
    """The statements that ask the ledger."""

    history = (
        "SELECT (SELECT COUNT(*) FROM json_each(%(moments)s) m WHERE m.value <= d.created_at), "
        f"SUM(delta), COUNT(*) FROM {DELTAS} d WHERE key = %(key)s "
        "AND created_at >= %(since)s AND created_at < %(until)s GROUP BY 1"
    )


class SqliteRolling(sql.Rolling):
    """The statements of the rollup of the ledger."""

    mark = f"SELECT {NOW}, COALESCE(MAX(horizon), 0) FROM {HORIZON}"
    summary = (
        f"SELECT COUNT(*), COUNT(DISTINCT key) FROM {DELTAS} "
        "WHERE xid >= %(horizon)s AND seq > %(fence)s"
    )
    # A sum that does not fit becomes a float; the column refuses the NULL that is made of it.
    fold = (
        f"INSERT INTO {COUNTER} AS t (key, value, updated_at, outside) "
        f"SELECT key, SUM(delta), {NOW}, 0 FROM {DELTAS} "
        "WHERE xid >= %(horizon)s AND seq > %(fence)s GROUP BY key "
        "ON CONFLICT (key) DO UPDATE SET value = CASE WHEN typeof(t.value + EXCLUDED.value) = "
        "'integer' THEN t.value + EXCLUDED.value END, updated_at = EXCLUDED.updated_at, "
        "outside = COALESCE(t.outside, t.value) RETURNING 1"
    )
    advance = f"UPDATE {HORIZON} SET horizon = horizon + 1 WHERE id = 1 RETURNING horizon"
    restart = (
        f"SELECT (SELECT COALESCE(MAX(horizon), 0) + 1 FROM {HORIZON}), "
        f"(SELECT COALESCE(MAX(seq), 0) FROM {DELTAS})"
    )


class SqliteFollowing(sql.Following):
    """The statements of those who follow the ledger. One writes at a time: all is complete."""

    _edge = f"SELECT COALESCE(MAX(fence), 0) AS f, COALESCE(MAX(horizon), 0) AS h FROM {HORIZON}"
    since = (
        f"SELECT edge.f, edge.h, ({sql.Following.dropped_as_of('CAST(edge.f AS TEXT)')}), "
        f"EXISTS (SELECT 1 FROM {DELTAS} WHERE token = %(token)s "
        "AND created_at = %(created_at)s), e.* "
        f"FROM ({_edge}) edge LEFT JOIN (SELECT token, key, delta, kind, xid, seq FROM {DELTAS} "
        "WHERE seq > %(seq)s ORDER BY seq LIMIT %(most)s) e ON e.seq > edge.f ORDER BY e.seq"
    )
    end = (
        f"SELECT edge.f, edge.h, (SELECT COALESCE(MAX(seq), edge.f) FROM {DELTAS}) "
        f"FROM ({_edge}) edge"
    )


class SqliteLedger(sql.LedgerStatements):
    """All statements of the ledger."""

    prepare = (
        f"CREATE INDEX {DELTAS}_tail ON {DELTAS} (key, xid)",
        f"CREATE INDEX {DELTAS}_seq ON {DELTAS} (seq)",
    )

    def __init__(self, spelling: Spelling) -> None:
        self.appends = SqliteAppends(spelling)
        self.inquiry = SqliteInquiry(spelling)
        self.rolling = SqliteRolling(spelling)
        self.following = SqliteFollowing()
        # The last one stays: others are numbered after it, and followers go by that.
        old = (
            f"FROM {DELTAS} WHERE created_at < %s AND NOT {spelling.waits} "
            f"AND seq < (SELECT MAX(seq) FROM {DELTAS})"
        )
        self.forget = (
            f"INSERT INTO {ARCHIVE} AS a (partition, key, entries, delta_sum) "
            f"SELECT '', key, COUNT(*), SUM(delta) {old} GROUP BY key "
            "ON CONFLICT (partition, key) DO UPDATE SET entries = a.entries + EXCLUDED.entries, "
            "delta_sum = a.delta_sum + EXCLUDED.delta_sum RETURNING entries",
            f"DELETE {old} RETURNING delta, xid, seq",
        )
