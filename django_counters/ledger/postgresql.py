"""The ledger in PostgreSQL: a partitioned table, rolled up by ended transactions."""

from __future__ import annotations

from django_counters.ledger import sql
from django_counters.stores.sql.dialects.postgresql.functions import (
    AHEAD,
    INDEXED,
    NUMBERED,
    SEQUENCE,
    STATE,
    WAITS,
)
from django_counters.stores.sql.dialects.spelling import (
    ARCHIVE,
    COUNTER,
    DELTAS,
    HORIZON,
    IN_TAIL,
    PARTITIONS,
    TOKENS,
    Spelling,
)

INT8 = "-9223372036854775808 AND 9223372036854775807"

_PREPARE = (
    f"CREATE SEQUENCE {SEQUENCE} OWNED BY {DELTAS}.seq",
    f"ALTER TABLE {DELTAS} ALTER COLUMN seq SET DEFAULT nextval('{SEQUENCE}'), "
    "ALTER COLUMN xid SET DEFAULT pg_current_xact_id()::text::bigint, "
    "ALTER COLUMN kind SET DEFAULT 0",
    # For the tail of one counter.
    f"CREATE INDEX {DELTAS}_tail ON {DELTAS} (key, xid)",
    # For the rollup. Rows are in the order of their transactions, so a summary is enough.
    f"CREATE INDEX {DELTAS}_rollup ON {DELTAS} USING brin (xid) "
    "WITH (pages_per_range = 32, autosummarize = on)",
)


class FunctionAppends(sql.Appends):
    """The statements that write entries: most are in functions."""

    one = "SELECT django_counters_append(%s, %s)"
    once = "SELECT django_counters_append_once(%s, %s, %s, %s, %s)"
    many = "SELECT outcome, what FROM django_counters_append_many(%s::text[], %s::bigint[])"
    many_once = (
        "SELECT outcome, what, replayed FROM django_counters_append_many_once("
        "%s::text[], %s::bigint[], %s::uuid[], %s::timestamptz[], %s::bytea[])"
    )
    open = "SELECT django_counters_open(%s::text[])::text"
    over = (
        f"SELECT t.key FROM {COUNTER} t JOIN unnest(%s::text[], %s::numeric[]) u (k, d) "
        f"ON u.k = t.key WHERE t.value + u.d NOT BETWEEN {INT8} LIMIT 1"
    )
    adjust = (
        f"INSERT INTO {DELTAS} (token, created_at, key, delta, kind) "
        f"VALUES (%s, %s, %s, %s, {sql.ADJUSTMENT}) RETURNING 1"
    )
    copy = f"COPY {DELTAS} (token, created_at, key, delta) FROM STDIN"
    check = (
        "SELECT CASE WHEN pg_current_xact_id()::text::bigint < MAX(horizon) "
        f"OR {NUMBERED} < MAX(fence) THEN {sql.Outcome.FENCED} ELSE {sql.Outcome.APPENDED} END, "
        f"CLOCK_TIMESTAMP() FROM {HORIZON}"
    )


class PostgresInquiry(sql.Inquiry):
    """The statements that ask the ledger."""

    history = (
        "SELECT width_bucket(at, %(moments)s::timestamptz[]), SUM(d), SUM(n)::bigint FROM ("
        f"SELECT d.created_at AS at, d.delta AS d, 1 AS n FROM {DELTAS} d WHERE d.key = %(key)s "
        "AND d.created_at >= %(since)s AND d.created_at < %(until)s{among} UNION ALL "
        f"SELECT p.since, a.delta_sum, a.entries FROM {ARCHIVE} a JOIN {PARTITIONS} p "
        "ON p.name = a.partition WHERE a.key = %(key)s AND {within}) u GROUP BY 1"
    )

    def __init__(self, spelling: Spelling) -> None:
        super().__init__(spelling)
        self.tail = "SELECT entries, counters FROM django_counters_waiting()"


# Entries that do not fit into their total go on waiting, as of a transaction that never ends. It
# is added to the number of the one that wrote them, since followers go by that.
_NEVER = 2**62

# One statement, so that the entries are looked at in the snapshot that says which transactions
# have ended: all that are below its xmin, and if they were committed their entries are seen.
# The time spares the partitions that have nothing of it, and their locks.
_FINISHED = (
    f"(e.xid >= %(horizon)s AND e.xid < edge.h OR e.xid >= {_NEVER}) AND e.seq > %(fence)s "
    "AND e.created_at >= %(since)s::timestamptz"
)
_FOLD = (
    "WITH edge AS MATERIALIZED "
    "(SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint AS h), "
    "sums AS MATERIALIZED (SELECT e.key, SUM(e.delta) AS d, COUNT(*) AS n, "
    f"BOOL_OR(e.xid >= {_NEVER}) AS waited "
    f"FROM {DELTAS} e, edge WHERE {_FINISHED} GROUP BY e.key), "
    f"judged AS MATERIALIZED (SELECT sums.*, COALESCE(t.value, 0) + d BETWEEN {INT8} "
    f"AND d BETWEEN {INT8} AS fits FROM sums LEFT JOIN {COUNTER} t USING (key)), "
    f"folded AS (INSERT INTO {COUNTER} AS t (key, value, updated_at, outside) "
    "SELECT key, d::bigint, STATEMENT_TIMESTAMP(), 0 FROM judged WHERE fits "
    'ORDER BY key COLLATE "C" ON CONFLICT (key) DO UPDATE SET '
    "value = t.value + EXCLUDED.value, updated_at = EXCLUDED.updated_at, "
    "outside = COALESCE(t.outside, t.value) RETURNING 1) "
    f"UPDATE {HORIZON} SET horizon = edge.h FROM edge "
    "WHERE id = 1 AND horizon = %(horizon)s AND fence = %(fence)s RETURNING horizon, "
    "(SELECT COALESCE(SUM(n), 0)::bigint FROM judged WHERE fits), "
    "(SELECT COUNT(*) FROM judged WHERE fits), "
    "ARRAY(SELECT key::text FROM judged WHERE NOT fits), "
    "ARRAY(SELECT key::text FROM judged WHERE fits AND waited)"
)


class PostgresRolling(sql.Rolling):
    """The statements of the rollup of the ledger."""

    # This moment comes before the snapshot that goes with it.
    mark = "SELECT STATEMENT_TIMESTAMP(), pg_snapshot_xmax(pg_current_snapshot())::text::bigint"
    may_ask = "SELECT has_function_privilege('pg_control_system()', 'EXECUTE')"
    cluster = "SELECT system_identifier FROM pg_control_system()"
    fold = _FOLD
    # Not part of the fold: changing entries locks all partitions, and is rarely needed.
    hold = (
        f"UPDATE {DELTAS} SET xid = xid + {_NEVER} WHERE key = ANY(%(keys)s::text[]) "
        "AND xid >= %(horizon)s AND xid < %(edge)s AND seq > %(fence)s "
        "AND created_at >= %(since)s::timestamptz RETURNING 1"
    )
    release = (
        f"UPDATE {DELTAS} SET xid = xid - {_NEVER} "
        f"WHERE key = ANY(%(keys)s::text[]) AND xid >= {_NEVER} "
        "AND created_at >= %(since)s::timestamptz RETURNING 1"
    )
    isolation = "SELECT current_setting('transaction_isolation')"
    numbered = f"SELECT {NUMBERED}"
    keep_out = f"LOCK TABLE {DELTAS} IN SHARE ROW EXCLUSIVE MODE"
    # Not the number of this transaction: one with a smaller number may yet write its first entry.
    # The fence differs from the last one, even in a copy without the sequence.
    restart = (
        "SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint, "
        f"setval('{SEQUENCE}', GREATEST((SELECT MAX(seq) FROM {DELTAS}), nextval('{SEQUENCE}'), "
        f"(SELECT MAX(fence) + 1 FROM {HORIZON})))"
    )
    holders = (
        "SELECT what, name, since, does FROM ("
        "SELECT 'transaction' AS what, format('pid %%s, %%s, database %%s', pid, usename, datname) "
        "AS name, xact_start AS since, state || ': ' || left(query, 80) AS does, backend_xid AS x "
        "FROM pg_stat_activity WHERE backend_xid IS NOT NULL AND pid <> pg_backend_pid() "
        "UNION ALL SELECT 'prepared transaction', format('%%s, database %%s', gid, database), "
        "prepared, 'waits for COMMIT PREPARED', transaction FROM pg_prepared_xacts) h "
        "ORDER BY age(x) DESC LIMIT 5"
    )


def _written(plus: int) -> str:
    """Entries of a range of transactions, by the numbers of these; ``plus`` is added to them."""
    first = f"%(xid)s::bigint + {plus}"
    return (
        f"SELECT token, key, delta, kind, xid - {plus} AS xid, seq FROM {DELTAS} "
        f"WHERE xid >= {first} AND xid < %(until)s::bigint + {plus} "
        f"AND xid < (SELECT h FROM edge) + {plus} AND seq > (SELECT f FROM edge) "
        f"AND (xid > {first} OR seq > %(seq)s::bigint){{among}}"
    )


class PostgresFollowing(sql.Following):
    """The statements of those who follow the ledger."""

    # Followers skip entries up to the fence, and those from before a rebase.
    passed = (
        f"WITH p AS MATERIALIZED (SELECT * FROM {PARTITIONS} WHERE dropped_at IS NULL), "
        "edge AS MATERIALIZED (SELECT LEAST(%(until)s::bigint, (SELECT first_xid FROM p "
        "WHERE fence = %(fence)s::bigint AND first_xid > %(xid)s::bigint "
        "ORDER BY first_xid OFFSET %(many)s LIMIT 1)) AS x) "
        "SELECT edge.x, lower(r), upper(r) FROM edge LEFT JOIN (SELECT "
        "unnest(range_agg(tstzrange(since, until))) AS r FROM p, edge "
        "WHERE fence IS DISTINCT FROM %(fence)s::bigint OR first_xid >= edge.x "
        "OR (last_xid, last_seq) <= (%(xid)s::bigint, %(seq)s::bigint)) u ON true"
    )

    # One statement, as for the rollup: the entries are looked at in the snapshot that says which
    # transactions have ended.
    since = (
        f"WITH edge AS MATERIALIZED (SELECT (SELECT COALESCE(MAX(fence), 0) FROM {HORIZON}) AS f, "
        "pg_snapshot_xmin(pg_current_snapshot())::text::bigint AS h), "
        f"page AS (SELECT * FROM ({_written(0)} UNION ALL {_written(_NEVER)}) e "
        "ORDER BY xid, seq LIMIT %(most)s) "
        f"SELECT edge.f, edge.h, ({sql.Following.dropped_as_of('edge.f::text')}), "
        f"EXISTS (SELECT FROM {DELTAS} WHERE token = %(token)s::uuid "
        "AND created_at = %(created_at)s::timestamptz), "
        "page.* FROM edge LEFT JOIN page ON true ORDER BY page.xid, page.seq"
    )
    end = (
        f"SELECT (SELECT COALESCE(MAX(fence), 0) FROM {HORIZON}), "
        "pg_snapshot_xmin(pg_current_snapshot())::text::bigint, 0"
    )


class SealedRanges(sql.SealedConditions):
    """Conditions of sealed partitions whose entries a read does not need."""

    # As many of the last ones as have enough entries; and others that have transactions among
    # theirs. Those of before a rebase come last, by their time.
    without_last = (
        "p.name NOT IN (SELECT name FROM (SELECT one.*, MIN(first_xid) FILTER (WHERE later < "
        "%(limit)s) OVER () AS first FROM (SELECT p.name, p.first_xid, p.last_xid, "
        "SUM(a.entries) OVER (ORDER BY p.last_xid DESC NULLS LAST, p.since DESC "
        f"ROWS UNBOUNDED PRECEDING) - a.entries AS later FROM {ARCHIVE} a "
        "JOIN (SELECT name, since, CASE WHEN fence = f THEN first_xid END AS first_xid, "
        f"CASE WHEN fence = f THEN last_xid END AS last_xid FROM {PARTITIONS}, "
        f"(SELECT COALESCE(MAX(fence), 0) AS f FROM {HORIZON}) s WHERE dropped_at IS NULL) p "
        "ON p.name = a.partition WHERE a.key = %(key)s) one) every "
        "WHERE later < %(limit)s OR last_xid >= first)"
    )


class RangePartitions(sql.Partitioning):
    """The statements of partitions."""

    partitioned = (
        "SELECT c.relkind = 'p', n.nspname FROM pg_class c JOIN pg_namespace n "
        f"ON n.oid = c.relnamespace WHERE c.oid = to_regclass('{DELTAS}')"
    )
    present = (
        "SELECT c.relname, b[1]::timestamptz, b[2]::timestamptz FROM pg_inherits i "
        "JOIN pg_class c ON c.oid = i.inhrelid CROSS JOIN LATERAL regexp_match("
        "pg_get_expr(c.relpartbound, c.oid), 'FROM \\(''([^'']*)''\\) TO \\(''([^'']*)''\\)') b "
        f"WHERE i.inhparent = to_regclass('{DELTAS}') AND b IS NOT NULL ORDER BY 2"
    )
    ranges = (
        "SELECT lower(r), upper(r) FROM (SELECT unnest(range_agg(tstzrange(p.since, p.until))) "
        f"AS r FROM {PARTITIONS} p WHERE p.dropped_at IS NULL AND ({{which}})) u"
    )
    sealed = (
        f"SELECT since, until FROM {PARTITIONS} WHERE dropped_at IS NULL "
        "AND since < %(until)s AND until > %(since)s ORDER BY since"
    )
    # Not by pg_partition_tree(), which locks each of them.
    locks = (
        "SELECT COUNT(*), current_setting('max_locks_per_transaction')::int "
        "* (current_setting('max_connections')::int "
        "+ current_setting('max_prepared_transactions')::int) "
        f"FROM (SELECT to_regclass('{DELTAS}')::oid AS relid UNION ALL SELECT inhrelid "
        f"FROM pg_inherits WHERE inhparent = to_regclass('{DELTAS}')) t "
        "CROSS JOIN LATERAL (SELECT relid UNION ALL SELECT indexrelid FROM pg_index "
        "WHERE indrelid = relid) r"
    )
    one_at_a_time = "SELECT pg_advisory_xact_lock(hashtext('django_counters_partitions'))"
    create = (
        f"CREATE TABLE IF NOT EXISTS {{name}} (LIKE {DELTAS} INCLUDING DEFAULTS "
        "INCLUDING CONSTRAINTS)"
    )
    attach = (
        f"ALTER TABLE {DELTAS} ATTACH PARTITION {{name}} FOR VALUES FROM ('{{since}}') "
        "TO ('{until}')"
    )
    still = "LOCK TABLE {name} IN SHARE MODE"
    last = (
        "SELECT f, (SELECT MIN(xid) FROM {name} WHERE seq > f), xid, seq FROM {name}, "
        f"(SELECT COALESCE(MAX(fence), 0) AS f FROM {HORIZON}) s "
        "WHERE seq > f ORDER BY xid DESC, seq DESC LIMIT 1"
    )
    numbered = (
        "SELECT COALESCE(MAX(seq), 0), "
        f"(SELECT COALESCE(MAX(fence), 0) FROM {HORIZON}), "
        f"(SELECT COALESCE(MAX(horizon), 0) FROM {HORIZON}) FROM {{name}}"
    )
    # Refuses new rows and takes those that a restore or a replication brings back. The number alone
    # isn't enough: an INSERT draws it before it waits for the seal, and another one may draw a
    # higher number and commit first. Its transaction hasn't ended, so it isn't below the horizon.
    # NOT VALID: present rows aren't read again. It may be closed already, where tables were
    # emptied.
    close = (
        "ALTER TABLE {name} DROP CONSTRAINT IF EXISTS django_counters_sealed, "
        "ADD CONSTRAINT django_counters_sealed CHECK (seq <= {number} "
        "AND (seq <= {fence} OR xid < {horizon})) NOT VALID"
    )
    closed = (
        "SELECT c.relname::text, EXISTS (SELECT FROM pg_constraint s WHERE s.conrelid = c.oid "
        "AND s.conname = 'django_counters_sealed') FROM pg_inherits i "
        f"JOIN pg_class c ON c.oid = i.inhrelid WHERE i.inhparent = to_regclass('{DELTAS}')"
    )
    content = "SELECT COUNT(*), COALESCE(SUM(delta), 0) FROM {name}"
    archive = (
        f"WITH sums AS (INSERT INTO {ARCHIVE} (partition, key, entries, delta_sum) "
        "SELECT %s, key, COUNT(*), SUM(delta) FROM {name} GROUP BY key "
        "RETURNING entries, delta_sum) "
        "SELECT COALESCE(SUM(entries), 0)::bigint, COALESCE(SUM(delta_sum), 0) FROM sums"
    )
    merge = (
        f"INSERT INTO {ARCHIVE} AS a (partition, key, entries, delta_sum) "
        f"SELECT '', key, entries, delta_sum FROM {ARCHIVE} WHERE partition = %s ORDER BY key "
        "ON CONFLICT (partition, key) DO UPDATE SET entries = a.entries + EXCLUDED.entries, "
        "delta_sum = a.delta_sum + EXCLUDED.delta_sum RETURNING 1"
    )
    forget = f"DELETE FROM {ARCHIVE} WHERE partition = %s RETURNING 1"
    lock_parent = f"LOCK TABLE ONLY {DELTAS} IN ACCESS EXCLUSIVE MODE"
    detach = f"ALTER TABLE {DELTAS} DETACH PARTITION {{name}}"
    drop = "DROP TABLE {name}"

    def __init__(self, spelling: Spelling) -> None:
        self.unfolded = f"SELECT 1 FROM {{name}} e, ({spelling.state()}) s WHERE {IN_TAIL} LIMIT 1"


class PostgresLedger(sql.LedgerStatements):
    """All statements of the ledger."""

    partition_by = " PARTITION BY RANGE (created_at)"
    prepare = _PREPARE
    sealed = SealedRanges()

    def __init__(self, spelling: Spelling) -> None:
        self.appends = FunctionAppends(spelling)
        self.inquiry = PostgresInquiry(spelling)
        self.rolling = PostgresRolling(spelling)
        self.following = PostgresFollowing()
        self.partitions = RangePartitions(spelling)


# Functions inside the database.


# A transaction that runs has a number that is not below the horizon, and an entry one above the
# fence. Where it is otherwise, the table came from another server, or without its sequence, and the
# entry would never be read. Only a rebase makes a fence, so nearly no transaction has to look.
_NUMBERED = f"""IF f > 0 THEN
    n := {NUMBERED};
  END IF;"""
_FENCED = "pg_current_xact_id()::text::bigint < h OR n < f"

# The row of a total records that its counter has a ledger, so other counters needn't look.
_OPEN = f"""
  SELECT t.value INTO total FROM {COUNTER} t WHERE t.key = k AND t.outside IS NOT NULL;
  IF NOT FOUND THEN
    INSERT INTO {COUNTER} AS t (key, value, updated_at, outside)
    VALUES (k, 0, STATEMENT_TIMESTAMP(), 0)
    ON CONFLICT (key) DO UPDATE SET outside = COALESCE(t.outside, t.value)
    RETURNING t.value INTO total;
  END IF;
  IF total::numeric + d NOT BETWEEN -9223372036854775808 AND 9223372036854775807 THEN
    outcome := {sql.Outcome.OVERFLOW};
    RETURN;
  END IF;
"""

# RFC 9562: 48 bits of milliseconds, version 7, and chance with the variant in its place.
_MINT = """(lpad(to_hex((date_part('epoch', {at}) * 1000)::bigint << 4 | 7), 13, '0')
    || substr(gen_random_uuid()::text, 16))::uuid"""

# NULL if it is refused: the caller then asks why.
_APPEND = f"""
CREATE OR REPLACE FUNCTION django_counters_append(k text, d bigint)
RETURNS uuid {INDEXED} AS $body$
DECLARE
  h bigint; f bigint; n bigint; total numeric; token uuid;
  at timestamptz := date_trunc('milliseconds', clock_timestamp());
BEGIN
  SELECT s.horizon, s.fence INTO h, f FROM {HORIZON} s WHERE s.id = 1;
  {_NUMBERED}
  IF {_FENCED} THEN
    RETURN NULL;
  END IF;
  SELECT t.value INTO total FROM {COUNTER} t WHERE t.key = k AND t.outside IS NOT NULL;
  IF total IS NULL THEN
    PERFORM django_counters_open(ARRAY[k]);
    SELECT t.value INTO total FROM {COUNTER} t WHERE t.key = k;
  END IF;
  IF total + d NOT BETWEEN -9223372036854775808 AND 9223372036854775807 THEN
    RETURN NULL;
  END IF;
  token := {_MINT.format(at="at")};
  INSERT INTO {DELTAS} (token, created_at, key, delta, kind) VALUES (token, at, k, d, 0);
  RETURN token;
END $body$
"""

# A change of a counter without a ledger inserts the same row before it looks for an entry. One of
# both waits for the other's transaction here, and then finds what it wrote. The row is deleted at
# once and holds its place until the transaction ends. An advisory lock would do the same in shared
# memory, which has room for some thousands.
_CLAIM = f"""INSERT INTO {TOKENS} (digest, fingerprint, result, created_at)
  VALUES (dg, '', '', at) ON CONFLICT DO NOTHING;"""
_CLAIM_MANY = f"""INSERT INTO {TOKENS} (digest, fingerprint, result, created_at)
  SELECT u.dg, '', '', u.at FROM unnest(dgs, ats) AS u (dg, at) ORDER BY u.dg
  ON CONFLICT DO NOTHING;
  GET DIAGNOSTICS claimed = ROW_COUNT;
  DELETE FROM {TOKENS} t WHERE t.digest = ANY (dgs) AND t.fingerprint = '';"""

# A token out of the window does not count, but its result can still be told if it counted within
# it.
_APPEND_ONCE = f"""
CREATE OR REPLACE FUNCTION django_counters_append_once(
  k text, d bigint, given uuid, at timestamptz, dg bytea, OUT outcome int)
{INDEXED} AS $body$
DECLARE
  h bigint; f bigint; n bigint; total bigint; since timestamptz; known interval; old record;
BEGIN
  SELECT s.horizon, s.fence, s.tail_since, s.token_window INTO h, f, since, known
  FROM {HORIZON} s WHERE s.id = 1;
  {_NUMBERED}
  IF {_FENCED} THEN
    outcome := {sql.Outcome.FENCED};
    RETURN;
  END IF;
  {_CLAIM}
  IF NOT FOUND THEN
    outcome := {sql.Outcome.CLAIMED};
    RETURN;
  END IF;
  DELETE FROM {TOKENS} t WHERE t.digest = dg;
  IF at > clock_timestamp() - COALESCE(known, INTERVAL '48 hours')
    AND at < clock_timestamp() + {AHEAD} AND at >= COALESCE(since, at) THEN
    {_OPEN}
    INSERT INTO {DELTAS} (token, created_at, key, delta, kind) VALUES (given, at, k, d, 0)
    ON CONFLICT DO NOTHING;
    IF FOUND THEN
      outcome := {sql.Outcome.APPENDED};
      RETURN;
    END IF;
  END IF;
  EXECUTE 'SELECT e.key, e.delta FROM {DELTAS} e WHERE e.token = $1 AND e.created_at = $2'
  INTO old USING given, at;
  outcome := CASE WHEN old.key IS NULL THEN {sql.Outcome.EXPIRED}
    WHEN old.key = k AND old.delta = d THEN {sql.Outcome.REPLAYED} ELSE {sql.Outcome.CONFLICT} END;
END $body$
"""

_OPEN_MANY = f"""
CREATE OR REPLACE FUNCTION django_counters_open(ks text[]) RETURNS void {INDEXED} AS $body$
BEGIN
  INSERT INTO {COUNTER} AS t (key, value, updated_at, outside)
  SELECT u.k, 0, STATEMENT_TIMESTAMP(), 0 FROM (SELECT DISTINCT unnest(ks) AS k) u
  WHERE NOT EXISTS (SELECT FROM {COUNTER} o WHERE o.key = u.k AND o.outside IS NOT NULL)
  ORDER BY u.k COLLATE "C"
  ON CONFLICT (key) DO UPDATE SET outside = COALESCE(t.outside, t.value);
END $body$
"""

_OVER = f"""
  SELECT u.k INTO what FROM unnest(ks, ds) AS u (k, d) JOIN {COUNTER} t ON t.key = u.k
  GROUP BY u.k, t.value
  HAVING t.value + SUM(u.d) NOT BETWEEN -9223372036854775808 AND 9223372036854775807 LIMIT 1;
  IF FOUND THEN
    outcome := {sql.Outcome.OVERFLOW};
    RETURN;
  END IF;
"""

_APPEND_MANY = f"""
CREATE OR REPLACE FUNCTION django_counters_append_many(
  ks text[], ds bigint[], OUT outcome int, OUT what text)
{INDEXED} AS $body$
DECLARE
  h bigint; f bigint; n bigint;
  at timestamptz := date_trunc('milliseconds', clock_timestamp());
BEGIN
  SELECT s.horizon, s.fence INTO h, f FROM {HORIZON} s WHERE s.id = 1;
  {_NUMBERED}
  IF {_FENCED} THEN
    outcome := {sql.Outcome.FENCED};
    RETURN;
  END IF;
  PERFORM django_counters_open(ks);
  {_OVER}
  INSERT INTO {DELTAS} (token, created_at, key, delta, kind)
  SELECT {_MINT.format(at="at")}, at, u.k, u.d, 0 FROM unnest(ks, ds) AS u (k, d);
  outcome := {sql.Outcome.APPENDED};
END $body$
"""

# Sorted by token: of two batches with the same tokens one waits for the other, never both. Errors
# are raised by the caller, who takes back the written rows.
_APPEND_MANY_ONCE = f"""
CREATE OR REPLACE FUNCTION django_counters_append_many_once(
  ks text[], ds bigint[], ts uuid[], ats timestamptz[], dgs bytea[],
  OUT outcome int, OUT what text, OUT replayed bigint)
{INDEXED} AS $body$
DECLARE
  h bigint; f bigint; n bigint; since timestamptz; known interval; appended bigint;
  claimed bigint;
BEGIN
  SELECT s.horizon, s.fence, s.tail_since, COALESCE(s.token_window, INTERVAL '48 hours')
  INTO h, f, since, known FROM {HORIZON} s WHERE s.id = 1;
  {_NUMBERED}
  known := COALESCE(known, INTERVAL '48 hours');
  IF {_FENCED} THEN
    outcome := {sql.Outcome.FENCED};
    RETURN;
  END IF;
  {_CLAIM_MANY}
  IF claimed < cardinality(dgs) THEN
    outcome := {sql.Outcome.CLAIMED};
    RETURN;
  END IF;
  PERFORM django_counters_open(ks);
  {_OVER}
  INSERT INTO {DELTAS} (token, created_at, key, delta, kind)
  SELECT u.t, u.at, u.k, u.d, 0 FROM unnest(ks, ds, ts, ats) AS u (k, d, t, at)
  WHERE u.at > clock_timestamp() - known AND u.at < clock_timestamp() + {AHEAD}
    AND u.at >= COALESCE(since, u.at)
  ORDER BY u.t ON CONFLICT DO NOTHING;
  GET DIAGNOSTICS appended = ROW_COUNT;
  replayed := cardinality(ks) - appended;
  outcome := CASE WHEN replayed = 0 THEN {sql.Outcome.APPENDED} ELSE {sql.Outcome.REPLAYED} END;
  IF replayed > 0 THEN
    EXECUTE 'SELECT u.t::text, CASE WHEN e.token IS NULL THEN {sql.Outcome.EXPIRED} '
      'ELSE {sql.Outcome.CONFLICT} END FROM unnest($1, $2, $3, $4) AS u (k, d, t, at) '
      'LEFT JOIN {DELTAS} e ON e.token = u.t AND e.created_at = u.at '
      'AND e.created_at BETWEEN $5 AND $6 '
      'WHERE e.token IS NULL OR e.key <> u.k OR e.delta <> u.d LIMIT 1'
    INTO what, outcome USING ks, ds, ts, ats,
      (SELECT MIN(a) FROM unnest(ats) AS a), (SELECT MAX(a) FROM unnest(ats) AS a);
    outcome := COALESCE(outcome, {sql.Outcome.REPLAYED});
  END IF;
END $body$
"""

_WAITING = f"""
CREATE OR REPLACE FUNCTION django_counters_waiting(OUT entries bigint, OUT counters bigint)
STABLE LANGUAGE plpgsql AS $body$
DECLARE h bigint; f bigint; since timestamptz;
BEGIN
  {STATE}
  EXECUTE 'SELECT COUNT(*), COUNT(DISTINCT e.key) {WAITS}'
  INTO entries, counters USING h, f, since;
END $body$
"""

FUNCTIONS = (_WAITING, _OPEN_MANY, _APPEND, _APPEND_ONCE, _APPEND_MANY, _APPEND_MANY_ONCE)
