"""The functions that read the ledger's pending amounts, as each value has them."""

from __future__ import annotations

from django_counters.stores.sql.dialects.tables import COUNTER, DELTAS, HORIZON

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

# Where a statement reads the ledger from: read it into h, f and since.
STATE = f"""
  SELECT s.horizon, s.fence, s.tail_since INTO h, f, since FROM {HORIZON} s WHERE s.id = 1;
  h := COALESCE(h, 0);
  f := COALESCE(f, 0);
  since := COALESCE(since, '-infinity');
"""
WAITS = f"FROM {DELTAS} e WHERE e.xid >= $1 AND e.seq > $2 AND e.created_at >= $3"

# STABLE: reads in the snapshot of the statement that calls it, as that reads the total. EXECUTE
# plans with the time of the tail at hand. A kept plan would lock all partitions and their indexes,
# until the caller's transaction ends, before it leaves out those that have nothing of the tail.
_TAIL = f"""
CREATE OR REPLACE FUNCTION django_counters_tail(k text)
RETURNS numeric STABLE {INDEXED} AS $body$
DECLARE h bigint; f bigint; since timestamptz; waits numeric;
BEGIN
  {STATE}
  EXECUTE 'SELECT SUM(e.delta) {WAITS} AND e.key = $4' INTO waits USING h, f, since, k;
  RETURN waits;
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
    {STATE}
    RETURN QUERY EXECUTE 'SELECT e.key::text, SUM(e.delta) {WAITS} AND e.key = ANY ($4) '
      'GROUP BY e.key' USING h, f, since, ks;
  END IF;
END $body$
"""

FUNCTIONS = (_TAIL, _TAILS)
