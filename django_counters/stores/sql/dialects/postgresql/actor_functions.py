"""Functions that count once for each actor: its row first, then the change.

The row of an actor is made where something is added, and deleted where it is taken away. Where the
change is refused, the row is as it was. ``p`` is the present value where nothing was to be changed.
"""

from __future__ import annotations

from django_counters.stores.sql.dialects.postgresql.tail_functions import INDEXED
from django_counters.stores.sql.dialects.tables import ACTORS, COUNTER, SHARDS

_ROW = f"""
  IF d > 0 THEN
    INSERT INTO {ACTORS} (measure_id, key, actor, created_at) VALUES (m, k, a, at)
    ON CONFLICT DO NOTHING;
  ELSE
    DELETE FROM {ACTORS} r WHERE r.measure_id = m AND r.key = k AND r.actor = a
    RETURNING r.created_at INTO at;
  END IF;
"""
_PRESENT = """
  IF NOT FOUND THEN
    SELECT COALESCE(r.total, 0) + COALESCE(r.waits, 0) INTO p FROM django_counters_read(k) r;
    RETURN;
  END IF;
"""

# When the row was made; NULL where there is nothing to count.
_CLAIM = f"""
CREATE OR REPLACE FUNCTION django_counters_claim(m int, k text, a text, at timestamptz, d int)
RETURNS timestamptz {INDEXED} AS $body$
BEGIN
  {_ROW}
  RETURN CASE WHEN FOUND THEN at END;
END $body$
"""

_UNCLAIM = f"""
CREATE OR REPLACE FUNCTION django_counters_unclaim(m int, k text, a text, at timestamptz, d int)
RETURNS bigint {INDEXED} AS $body$
BEGIN
  IF d > 0 THEN
    DELETE FROM {ACTORS} r WHERE r.measure_id = m AND r.key = k AND r.actor = a;
  ELSE
    INSERT INTO {ACTORS} (measure_id, key, actor, created_at) VALUES (m, k, a, at);
  END IF;
  RETURN NULL;
END $body$
"""

_ONCE = f"""
CREATE OR REPLACE FUNCTION django_counters_once(
  m int, k text, a text, at timestamptz, d int, bound bigint, OUT v bigint, OUT p bigint)
{INDEXED} AS $body$
BEGIN
  {_ROW}{_PRESENT}
  v := django_counters_add(d, bound, k);
  IF v IS NULL THEN
    PERFORM django_counters_unclaim(m, k, a, at, d);
  END IF;
END $body$
"""

_ONCE_SHARD = f"""
CREATE OR REPLACE FUNCTION django_counters_once_shard(
  m int, k text, a text, at timestamptz, d int, cap int, wanted int,
  OUT v bigint, OUT n int, OUT p bigint)
{INDEXED} AS $body$
BEGIN
  {_ROW}{_PRESENT}
  SELECT s.v, s.n INTO v, n FROM django_counters_shard(d, cap, wanted, k) s;
  IF v IS NULL THEN
    PERFORM django_counters_unclaim(m, k, a, at, d);
  END IF;
END $body$
"""

# The same as one text, which takes less time than a row: the new value, or "=" and the present one;
# NULL where the change is refused. Nearly always the total is there and nothing waits beside it:
# another function is called for the rest alone.
_ALONE = f"t.outside IS NULL AND NOT EXISTS (SELECT FROM {SHARDS} s WHERE s.key = k)"
_ONCE_TEXT = f"""
CREATE OR REPLACE FUNCTION django_counters_once_text(
  m int, k text, a text, at timestamptz, d int, bound bigint)
RETURNS text {INDEXED} AS $body$
DECLARE v bigint;
BEGIN
  {_ROW}
  IF NOT FOUND THEN
    SELECT t.value INTO v FROM {COUNTER} t WHERE t.key = k AND {_ALONE};
    IF v IS NULL THEN
      SELECT COALESCE(r.total, 0) + COALESCE(r.waits, 0) INTO v FROM django_counters_read(k) r;
    END IF;
    RETURN '=' || v;
  END IF;
  UPDATE {COUNTER} AS t SET value = t.value + d, updated_at = STATEMENT_TIMESTAMP()
  WHERE t.key = k AND CASE WHEN d > 0 THEN t.value <= bound ELSE t.value >= bound END AND {_ALONE}
  RETURNING t.value INTO v;
  IF v IS NULL THEN
    v := django_counters_add(d, bound, k);
  END IF;
  IF v IS NULL THEN
    PERFORM django_counters_unclaim(m, k, a, at, d);
  END IF;
  RETURN v;
END $body$
"""

_ONCE_SHARD_TEXT = f"""
CREATE OR REPLACE FUNCTION django_counters_once_shard_text(
  m int, k text, a text, at timestamptz, d int, cap int, wanted int)
RETURNS text {INDEXED} AS $body$
DECLARE v bigint;
BEGIN
  {_ROW}
  IF NOT FOUND THEN
    RETURN (SELECT '=' || (COALESCE(r.total, 0) + COALESCE(r.waits, 0))
      FROM django_counters_read(k) r);
  END IF;
  SELECT s.v INTO v FROM django_counters_shard(d, cap, wanted, k) s;
  IF v IS NULL THEN
    PERFORM django_counters_unclaim(m, k, a, at, d);
  END IF;
  RETURN v;
END $body$
"""

FUNCTIONS = (_CLAIM, _UNCLAIM, _ONCE, _ONCE_SHARD, _ONCE_TEXT, _ONCE_SHARD_TEXT)
