"""Holds in PostgreSQL: one function makes the row and takes from the total."""

from __future__ import annotations

from django_counters.stores.sql.dialects.holds import Holds
from django_counters.stores.sql.dialects.postgresql.ledger_functions import INDEXED
from django_counters.stores.sql.dialects.tables import HOLDS

# The row comes first, so that a transaction that comes second with a token takes nothing, and the
# total is locked for as short as can be.
_HOLD = f"""
CREATE OR REPLACE FUNCTION django_counters_hold(
  t text, k text, q bigint, bound bigint, seconds float8, said text, whose text,
  OUT v bigint, OUT ends bigint)
{INDEXED} AS $body$
BEGIN
  INSERT INTO {HOLDS}
    (token, field, key, quantity, sold, state, note, actor, expires_at, created_at)
  VALUES (t, '', k, q, 0, 0, said, whose, CLOCK_TIMESTAMP() + make_interval(secs => seconds),
    CLOCK_TIMESTAMP())
  ON CONFLICT DO NOTHING
  RETURNING (EXTRACT(EPOCH FROM expires_at) * 1000000)::bigint INTO ends;
  IF NOT FOUND THEN
    RETURN;
  END IF;
  v := django_counters_add(-q, bound, k);
  IF v IS NULL THEN
    DELETE FROM {HOLDS} h WHERE h.token = t;
  END IF;
END $body$
"""

FUNCTIONS = (_HOLD,)


class PostgresHolds(Holds):
    """Holds in a function: it keeps its plans."""

    take = "SELECT v, ends FROM django_counters_hold(%s, %s, %s, %s, %s, %s, %s)"
