"""The SQL of likes: the functions in PostgreSQL, two statements, and the store."""

from __future__ import annotations

from django.db import connections

from django_counters.measure import Condition, ConditionKind, RowColumn
from django_counters.stores.sql.claims import SqlConditions
from django_counters.stores.sql.dialects import Table
from django_counters.stores.sql.dialects.postgresql.functions import INDEXED
from django_counters.stores.sql.dialects.spelling import COUNTER, SHARDS, Spelling
from django_counters.stores.sql.session import Owner

ACTORS = "django_counters_counteractor"
ACTOR = ConditionKind(
    "actor",
    ACTORS,
    (
        RowColumn("m", "measure_id", "int"),
        RowColumn("k", "key", "text"),
        RowColumn("a", "actor", "text"),
        RowColumn("at", "created_at", "timestamptz"),
    ),
    claim="django_counters_claim",
    unclaim="django_counters_unclaim",
    whole="django_counters_once",
)

# The functions in PostgreSQL. The row of an actor is made if something is added, and deleted if it
# is taken away. If the change is refused, the row is as it was. ``p`` is the present value if
# nothing was to be changed.

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

#: Give a row another actor. Parameters: that, measure, key, actor. A row if there was one.
_RENAME = (
    f"UPDATE {ACTORS} SET actor = %s WHERE measure_id = %s AND key = %s AND actor = %s RETURNING 1"
)
#: Rows: how many there are.


def _differing(spelling: Spelling, table: Table, vendor: str) -> str:
    """Find counters that have not as many rows as they count, of one moment.

    Parameters: the measure, and of records the content type. Rows: keys, rows, values.
    """
    pending = table.pending

    def text(key: str) -> str:
        # Compared byte by byte, as the key of a row.
        return f'{key}::text COLLATE "C"' if vendor == "postgresql" else spelling.as_text(key)

    mine = f"FROM {ACTORS} a WHERE a.measure_id = %s"
    counted = [f"SELECT a.key AS k, 1 AS rows_of, 0 AS value {mine}"]
    if table.value:
        counted.append(f"SELECT {text(table.key)}, 0, {table.value} FROM {table.name}")
    if pending.record is None:
        (owner,) = pending.owner
        counted.append(f"SELECT {owner}, 0, {pending.value} FROM {pending.name}")
    else:
        kind, record, name = pending.owner
        mine = f"{name} = {spelling.literal(pending.record[1])}"
        counted.append(
            f"SELECT {text(record)}, 0, {pending.value} FROM {pending.name} "
            f"WHERE {kind} = %s AND {mine}"
        )
    return (
        f"SELECT k, SUM(rows_of), SUM(value) FROM ({' UNION ALL '.join(counted)}) u "
        "GROUP BY k HAVING SUM(rows_of) <> SUM(value) ORDER BY k"
    )


class SqlActors(SqlConditions):
    """Makes, renames and deletes rows of actors, within the transaction of their change."""

    def rename(self, condition: Condition, actor: str) -> bool:
        """Give the row of an actor to another one, who has none; return whether there was one."""
        return bool(self.run(_RENAME, (actor, *self.row(condition)[:-1])))

    def differing(self, measure: int, table: Table) -> list[tuple[str, int, int]]:
        """Return the counters of a table that have not as many rows as they count.

        Each with its rows and its value.
        """
        session = self._session
        kind = Owner(table.pending, session).kind()
        vendor = connections[session.using].vendor
        sql = _differing(session.dialect, table.quoted(session.quote), vendor)
        rows = session.run(sql, (measure, *kind), writes=False)
        return [(str(key), int(found), int(value)) for key, found, value in rows]
