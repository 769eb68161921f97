"""The functions of the ledger inside PostgreSQL."""

from __future__ import annotations

from django_counters.stores.base import Outcome
from django_counters.stores.sql.dialects.tables import COUNTER, DELTAS, HORIZON, TOKENS

# Every statement finds its rows by an index. A plan that was made while a table was small would
# read all of it, and a connection keeps its plans while the table grows.
INDEXED = "LANGUAGE plpgsql SET enable_seqscan = off"

# Counters differ in how many rows they have. A plan for each call would fit them better, but to
# make it takes longer than to use one that fits all.
PLANNED_ONCE = f"{INDEXED} SET plan_cache_mode = force_generic_plan"

# Clients' clocks may be ahead by so much.
AHEAD = "INTERVAL '1 hour'"

SEQUENCE = f"{DELTAS}_seq_seq"
# How far entries are numbered.
NUMBERED = f"COALESCE(pg_sequence_last_value('{SEQUENCE}'::regclass), 0)"

# Whether the ledger was ever used. A role without a right on the sequence can't know.
USED = (
    f"(CASE WHEN has_sequence_privilege('{SEQUENCE}', 'USAGE, SELECT') THEN {NUMBERED} > 0 "
    "ELSE true END)"
)
# Entries of a counter without a total wait only if its row was deleted. New counters have no row
# either, sharded ones until their first rollup. They pay for a look at the partitions only in a
# database whose ledger was used.
LOST = f"t.key IS NULL AND {USED}"

# A transaction that runs has a number that is not below the horizon, and an entry one above the
# fence. Where it is otherwise, the table came from another server, or without its sequence, and the
# entry would never be read. Only a rebase makes a fence, so nearly no transaction has to look.
_NUMBERED = f"""IF f > 0 THEN
    n := {NUMBERED};
  END IF;"""
_FENCED = "pg_current_xact_id()::text::bigint < h OR n < f"

# The total of a counter says whether there is anything in the ledger, so that others need not look.
_OPEN = f"""
  SELECT t.value INTO total FROM {COUNTER} t WHERE t.key = k AND t.outside IS NOT NULL;
  IF NOT FOUND THEN
    INSERT INTO {COUNTER} AS t (key, value, updated_at, outside)
    VALUES (k, 0, STATEMENT_TIMESTAMP(), 0)
    ON CONFLICT (key) DO UPDATE SET outside = COALESCE(t.outside, t.value)
    RETURNING t.value INTO total;
  END IF;
  IF total::numeric + d NOT BETWEEN -9223372036854775808 AND 9223372036854775807 THEN
    outcome := {Outcome.OVERFLOW};
    RETURN;
  END IF;
"""

# RFC 9562: 48 bits of milliseconds, version 7, and chance with the variant in its place.
_MINT = """(lpad(to_hex((date_part('epoch', {at}) * 1000)::bigint << 4 | 7), 13, '0')
    || substr(gen_random_uuid()::text, 16))::uuid"""

# NULL where it is refused: the caller finds out why.
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
    outcome := {Outcome.FENCED};
    RETURN;
  END IF;
  {_CLAIM}
  IF NOT FOUND THEN
    outcome := {Outcome.CLAIMED};
    RETURN;
  END IF;
  DELETE FROM {TOKENS} t WHERE t.digest = dg;
  IF at > clock_timestamp() - COALESCE(known, INTERVAL '48 hours')
    AND at < clock_timestamp() + {AHEAD} AND at >= COALESCE(since, at) THEN
    {_OPEN}
    INSERT INTO {DELTAS} (token, created_at, key, delta, kind) VALUES (given, at, k, d, 0)
    ON CONFLICT DO NOTHING;
    IF FOUND THEN
      outcome := {Outcome.APPENDED};
      RETURN;
    END IF;
  END IF;
  EXECUTE 'SELECT e.key, e.delta FROM {DELTAS} e WHERE e.token = $1 AND e.created_at = $2'
  INTO old USING given, at;
  outcome := CASE WHEN old.key IS NULL THEN {Outcome.EXPIRED}
    WHEN old.key = k AND old.delta = d THEN {Outcome.REPLAYED} ELSE {Outcome.CONFLICT} END;
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
    outcome := {Outcome.OVERFLOW};
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
    outcome := {Outcome.FENCED};
    RETURN;
  END IF;
  PERFORM django_counters_open(ks);
  {_OVER}
  INSERT INTO {DELTAS} (token, created_at, key, delta, kind)
  SELECT {_MINT.format(at="at")}, at, u.k, u.d, 0 FROM unnest(ks, ds) AS u (k, d);
  outcome := {Outcome.APPENDED};
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
    outcome := {Outcome.FENCED};
    RETURN;
  END IF;
  {_CLAIM_MANY}
  IF claimed < cardinality(dgs) THEN
    outcome := {Outcome.CLAIMED};
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
  outcome := CASE WHEN replayed = 0 THEN {Outcome.APPENDED} ELSE {Outcome.REPLAYED} END;
  IF replayed > 0 THEN
    EXECUTE 'SELECT u.t::text, CASE WHEN e.token IS NULL THEN {Outcome.EXPIRED} '
      'ELSE {Outcome.CONFLICT} END FROM unnest($1, $2, $3, $4) AS u (k, d, t, at) '
      'LEFT JOIN {DELTAS} e ON e.token = u.t AND e.created_at = u.at '
      'AND e.created_at BETWEEN $5 AND $6 '
      'WHERE e.token IS NULL OR e.key <> u.k OR e.delta <> u.d LIMIT 1'
    INTO what, outcome USING ks, ds, ts, ats,
      (SELECT MIN(a) FROM unnest(ats) AS a), (SELECT MAX(a) FROM unnest(ats) AS a);
    outcome := COALESCE(outcome, {Outcome.REPLAYED});
  END IF;
END $body$
"""

# Where a statement reads the ledger from: read it into h, f and since.
_STATE = f"""
  SELECT s.horizon, s.fence, s.tail_since INTO h, f, since FROM {HORIZON} s WHERE s.id = 1;
  h := COALESCE(h, 0);
  f := COALESCE(f, 0);
  since := COALESCE(since, '-infinity');
"""
_WAITS = f"FROM {DELTAS} e WHERE e.xid >= $1 AND e.seq > $2 AND e.created_at >= $3"

# STABLE: reads in the snapshot of the statement that calls it, as that reads the total. EXECUTE
# plans with the time of the tail at hand. A kept plan would lock all partitions and their indexes,
# until the caller's transaction ends, before it leaves out those that have nothing of the tail.
_TAIL = f"""
CREATE OR REPLACE FUNCTION django_counters_tail(k text)
RETURNS numeric STABLE {INDEXED} AS $body$
DECLARE h bigint; f bigint; since timestamptz; waits numeric;
BEGIN
  {_STATE}
  EXECUTE 'SELECT SUM(e.delta) {_WAITS} AND e.key = $4' INTO waits USING h, f, since, k;
  RETURN waits;
END $body$
"""

_WAITING = f"""
CREATE OR REPLACE FUNCTION django_counters_waiting(OUT entries bigint, OUT counters bigint)
STABLE LANGUAGE plpgsql AS $body$
DECLARE h bigint; f bigint; since timestamptz;
BEGIN
  {_STATE}
  EXECUTE 'SELECT COUNT(*), COUNT(DISTINCT e.key) {_WAITS}'
  INTO entries, counters USING h, f, since;
END $body$
"""

_TAILS = f"""
CREATE OR REPLACE FUNCTION django_counters_tails(ks text[])
RETURNS TABLE (k text, waits numeric) STABLE {INDEXED} AS $body$
DECLARE h bigint; f bigint; since timestamptz;
BEGIN
  ks := ARRAY(SELECT u.k FROM unnest(ks) AS u (k) LEFT JOIN {COUNTER} t ON t.key = u.k
    WHERE t.outside IS NOT NULL OR {LOST});
  IF cardinality(ks) > 0 THEN
    {_STATE}
    RETURN QUERY EXECUTE 'SELECT e.key::text, SUM(e.delta) {_WAITS} AND e.key = ANY ($4) '
      'GROUP BY e.key' USING h, f, since, ks;
  END IF;
END $body$
"""

FUNCTIONS = (
    _TAIL,
    _TAILS,
    _WAITING,
    _OPEN_MANY,
    _APPEND,
    _APPEND_ONCE,
    _APPEND_MANY,
    _APPEND_MANY_ONCE,
)
