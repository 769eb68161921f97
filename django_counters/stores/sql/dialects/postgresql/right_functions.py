"""Functions that take from rows of a counter with a floor.

No row is below zero, and no total below the floor: so a row that has enough is all that is asked.
"""

from __future__ import annotations

from django_counters.stores.sql.dialects.postgresql.tail_functions import PLANNED_ONCE, USED
from django_counters.stores.sql.dialects.tables import COUNTER, SHARDS, SLOTS

# First a row that no transaction holds and that has enough; where there is none, one that is waited
# for. Each is looked at again once it is held: if others have left too little, the end of the block
# lets it go. A transaction that waits, or goes on to hold all rows, holds none meanwhile: else two
# could wait for each other. Where fewer than half of the rows that there may be have enough, what
# there is has to be shared first: before writers meet at those.
_TAKE = """
  IF have < d OR NOT fits OR 2 * rich < LEAST(cap, div(have, d)) THEN
    RETURN{nothing};
  END IF;
  BEGIN
    SELECT s.{number} INTO wanted FROM {table} s
    WHERE {owned} AND s.{number} >= pg_backend_pid() % cap AND s.{value} >= d
    ORDER BY s.{number} LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED;
    IF wanted IS NULL THEN
      SELECT s.{number} INTO STRICT wanted FROM {table} s
      WHERE {owned} AND s.{number} >= 0 AND s.{value} >= d
      ORDER BY s.{number} LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED;
    END IF;
    UPDATE {table} s SET {value} = s.{value} - d WHERE {owned} AND s.{number} = wanted;
    {done}
  EXCEPTION WHEN no_data_found THEN
    SELECT s.{number} INTO wanted FROM {table} s
    WHERE {owned} AND s.{number} >= 0 AND s.{value} >= d ORDER BY random() LIMIT 1;
  END;
  BEGIN
    SELECT s.{number} INTO STRICT wanted FROM {table} s
    WHERE {owned} AND s.{number} = wanted AND s.{value} >= d FOR NO KEY UPDATE;
    UPDATE {table} s SET {value} = s.{value} - d WHERE {owned} AND s.{number} = wanted;
    {done}
  EXCEPTION WHEN no_data_found THEN
    RETURN{nothing};
  END;
"""

# The value and all rows are of one snapshot. A row below zero, a total below the floor, or entries
# that wait are of another strategy: then nothing is taken from one row alone.
_SHARD = (
    f"""
CREATE OR REPLACE FUNCTION django_counters_take(
  d bigint, cap int, bound bigint, k text, OUT v bigint, OUT n int)
{PLANNED_ONCE} AS $body$
DECLARE present numeric; have numeric; rich int; fits boolean; wanted int;
BEGIN
  SELECT t.value + COALESCE(t.tail, 0) + COALESCE(SUM(s.value), 0),
    COUNT(*) FILTER (WHERE s.value >= d),
    t.value >= bound AND COALESCE(t.tail, 0) = 0 AND COALESCE(MIN(s.value), 0) >= 0
  INTO present, rich, fits
  FROM (SELECT COALESCE(MAX(c.value), 0) AS value,
      CASE WHEN COUNT(*) = COUNT(c.outside) AND (COUNT(*) > 0 OR {USED})
        THEN django_counters_tail(k) END AS tail
    FROM {COUNTER} c WHERE c.key = k) t
  LEFT JOIN {SHARDS} s ON s.key = k GROUP BY t.value, t.tail;
  have := present - bound;
"""
    + _TAKE.format(
        table=SHARDS,
        owned="s.key = k",
        number="shard",
        value="value",
        nothing="",
        done="v := present - d; n := wanted; RETURN;",
    )
    + """
END $body$
"""
)

_SLOT = (
    f"""
CREATE OR REPLACE FUNCTION django_counters_take_slot(
  d bigint, cap int, bound bigint, kind int, record text, counter text, total bigint)
RETURNS int {PLANNED_ONCE} AS $body$
DECLARE have numeric; rich int; fits boolean; wanted int;
BEGIN
  SELECT total + COALESCE(SUM(s.count), 0) - bound, COUNT(*) FILTER (WHERE s.count >= d),
    total >= bound AND COALESCE(MIN(s.count), 0) >= 0
  INTO have, rich, fits FROM {SLOTS} s
  WHERE s.record_type_id = kind AND s.record_id = record AND s.name = counter;
"""
    + _TAKE.format(
        table=SLOTS,
        owned="s.record_type_id = kind AND s.record_id = record AND s.name = counter",
        number="slot",
        value="count",
        nothing=" NULL",
        done="RETURN wanted;",
    )
    + """
END $body$
"""
)

FUNCTIONS = (_SHARD, _SLOT)
