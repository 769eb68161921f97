"""The ledger in SQLite: one table, and one writer at a time, so what is written is finished."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from django_counters.stores.sql.dialects.ledger import (
    ADJUSTMENT,
    ENTRY,
    KEPT,
    Entry,
    Inquiry,
    Ledger,
    PlainAppends,
    Rolling,
    after,
    drift,
    parts,
    sample,
    state,
    tail,
    total,
)
from django_counters.stores.sql.dialects.tables import ARCHIVE, COUNTER, DELTAS, HORIZON, TOKENS

NOW = "STRFTIME('%%Y-%%m-%%d %%H:%%M:%%f', 'NOW')"
_EACH = "IN (SELECT value FROM json_each(%s))"
_STATE = state("''")
# Above the fence of a rebase, too: the entries that it was taken from may be forgotten by now.
_NUMBERED = (
    f"MAX((SELECT COALESCE(MAX(seq), 0) FROM {DELTAS}), "
    f"(SELECT COALESCE(MAX(fence), 0) FROM {HORIZON}))"
)

# The horizon counts rollups, and an entry says before which one it was written.
WAITS = f"xid >= (SELECT COALESCE(MAX(horizon), 0) FROM {HORIZON})"


def tail_of(key: str) -> str:
    """What waits in the ledger for one counter."""
    return f"SELECT SUM(delta) AS waits FROM {DELTAS} WHERE key = {key} AND {WAITS}"


def tails(among: str) -> str:
    """What waits in the ledger for some counters, in rows of key, NULL, and a number."""
    return f"SELECT key, NULL, delta FROM {DELTAS} WHERE key {among} AND {WAITS}"


_PREPARE = (
    f"CREATE INDEX {DELTAS}_tail ON {DELTAS} (key, xid)",
    f"CREATE INDEX {DELTAS}_seq ON {DELTAS} (seq)",
)


def _arrange(entries: Sequence[Entry]) -> tuple[Any, ...]:
    rows = [[e.token.hex, str(e.created_at), e.key, e.delta] for e in entries]
    return (json.dumps(rows),)


_APPENDS = PlainAppends(
    open=(
        f"INSERT INTO {COUNTER} AS t (key, value, updated_at, outside) "
        f"SELECT DISTINCT value, 0, {NOW}, 0 FROM json_each(%s) WHERE true "
        "ON CONFLICT (key) DO UPDATE SET outside = t.value WHERE t.outside IS NULL RETURNING 1"
    ),
    add=(
        f"INSERT INTO {DELTAS} (token, created_at, key, delta, kind, xid, seq) "
        "SELECT json_extract(e.value, '$[0]'), json_extract(e.value, '$[1]'), "
        "json_extract(e.value, '$[2]'), json_extract(e.value, '$[3]'), 0, "
        f"(SELECT COALESCE(MAX(horizon), 0) FROM {HORIZON}), "
        f"{_NUMBERED} + e.key + 1 "
        "FROM json_each(%s) e WHERE true ON CONFLICT DO NOTHING RETURNING token"
    ),
    adjust=(
        f"INSERT INTO {DELTAS} (token, created_at, key, delta, kind, xid, seq) "
        f"SELECT %s, %s, %s, %s, {ADJUSTMENT}, (SELECT COALESCE(MAX(horizon), 0) FROM {HORIZON}), "
        f"{_NUMBERED} + 1 RETURNING 1"
    ),
    over=(
        f"SELECT t.key FROM {COUNTER} t JOIN (SELECT json_extract(value, '$[0]') AS k, "
        "json_extract(value, '$[1]') AS d FROM json_each(%s)) u ON u.k = t.key "
        f"WHERE typeof(t.value + COALESCE(({tail_of('t.key')}), 0) + u.d) <> 'integer' LIMIT 1"
    ),
    present=f"SELECT token, key, delta FROM {DELTAS} WHERE token {_EACH}",
    claimed=f"SELECT hex(digest) FROM {TOKENS} WHERE hex(digest) {_EACH}",
    arrange=_arrange,
)

_INQUIRY = Inquiry(
    total=total(),
    history=(
        "SELECT (SELECT COUNT(*) FROM json_each(%s) m WHERE m.value <= d.created_at) AS n, "
        f"SUM(delta), COUNT(*) FROM {DELTAS} d "
        "WHERE key = %s AND created_at >= %s AND created_at < %s GROUP BY 1"
    ),
    after=after(),
    parts=parts(_STATE, f"({tail_of('%(key)s')})"),
    entry=ENTRY,
    kept=KEPT,
    tail=tail(_STATE),
    drift=drift(_STATE, "IN (SELECT value FROM json_each(%(keys)s))", "value - outside"),
    sample=sample(),
)

_DUE = (
    f"SELECT key, SUM(d) AS d FROM (SELECT key, delta AS d FROM {DELTAS} "
    f"UNION ALL SELECT key, CAST(delta_sum AS INTEGER) FROM {ARCHIVE} WHERE partition = '' "
    f"UNION ALL SELECT key, 0 FROM {COUNTER} WHERE outside IS NOT NULL) u GROUP BY key"
)

_ROLLING = Rolling(
    mark=f"SELECT {NOW}, COALESCE(MAX(horizon), 0) FROM {HORIZON}",
    may_ask="",
    cluster="",
    summary=(
        f"SELECT COUNT(*), COUNT(DISTINCT key) FROM {DELTAS} "
        "WHERE xid >= %(horizon)s AND seq > %(fence)s"
    ),
    # A sum that does not fit becomes a float; the column refuses the NULL that is made of it.
    fold=(
        f"INSERT INTO {COUNTER} AS t (key, value, updated_at, outside) "
        f"SELECT key, SUM(delta), {NOW}, 0 FROM {DELTAS} "
        "WHERE xid >= %(horizon)s AND seq > %(fence)s GROUP BY key "
        "ON CONFLICT (key) DO UPDATE SET value = CASE WHEN typeof(t.value + EXCLUDED.value) = "
        "'integer' THEN t.value + EXCLUDED.value END, updated_at = EXCLUDED.updated_at, "
        "outside = COALESCE(t.outside, t.value) RETURNING 1"
    ),
    advance=f"UPDATE {HORIZON} SET horizon = horizon + 1 WHERE id = 1 RETURNING horizon",
    hold="",
    release="",
    isolation="",
    numbered="",
    keep_out="",
    recompute=(
        f"INSERT INTO {COUNTER} AS t (key, value, updated_at, outside) "
        f"SELECT key, d, {NOW}, 0 FROM ({_DUE}) due WHERE true "
        "ON CONFLICT (key) DO UPDATE SET value = COALESCE(t.outside, t.value) + EXCLUDED.value, "
        "outside = COALESCE(t.outside, t.value), updated_at = EXCLUDED.updated_at "
        "WHERE t.value <> COALESCE(t.outside, t.value) + EXCLUDED.value OR t.outside IS NULL "
        "RETURNING key"
    ),
    restart=(
        f"SELECT (SELECT COALESCE(MAX(horizon), 0) + 1 FROM {HORIZON}), "
        f"(SELECT COALESCE(MAX(seq), 0) FROM {DELTAS})"
    ),
    holders="",
)

LEDGER = Ledger(
    partitioned="",
    prepare=_PREPARE,
    appends=_APPENDS,
    inquiry=_INQUIRY,
    rolling=_ROLLING,
    partitions=None,
    forget=(
        f"INSERT INTO {ARCHIVE} AS a (partition, key, entries, delta_sum) "
        f"SELECT '', key, COUNT(*), SUM(delta) FROM {DELTAS} "
        f"WHERE created_at < %s AND NOT {WAITS} GROUP BY key "
        "ON CONFLICT (partition, key) DO UPDATE SET entries = a.entries + EXCLUDED.entries, "
        "delta_sum = a.delta_sum + EXCLUDED.delta_sum RETURNING entries",
        f"DELETE FROM {DELTAS} WHERE created_at < %s AND NOT {WAITS} RETURNING delta",
    ),
)
