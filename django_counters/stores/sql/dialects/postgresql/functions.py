"""The functions of the core on PostgreSQL."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import NamedTuple

from django.db import connections, transaction
from django.db.backends.utils import CursorWrapper
from django.utils.module_loading import import_string

from django_counters.errors import InvalidConfiguration
from django_counters.features import features
from django_counters.measure import SHARD, Kind
from django_counters.stores.sql.dialects.cells import insert
from django_counters.stores.sql.dialects.postgresql.cells import function_of
from django_counters.stores.sql.dialects.spelling import COUNTER, DELTAS, HORIZON, SHARDS, SLOTS

# -- The functions that read the ledger's pending amounts, as each value has them.

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

# -- Functions that take from rows of a counter with a floor.
# No row is below zero, and no total below the floor: so a row that has enough is all that is asked.

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
_SHARD_RIGHT = (
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

_SLOT_RIGHT = (
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

_RIGHTS = (_SHARD_RIGHT, _SLOT_RIGHT)

# -- The functions that run inside PostgreSQL.
# A function keeps the plans of its statements for as long as a connection lives, where a statement
# that arrives as text is parsed and planned each time: an increment through a function takes less
# time than the bare statement. `install` puts them beside the tables; they touch nothing else, and
# run with the rights of their caller.

# The row of a total says whether the counter was ever in the ledger: no other transaction has to
# look.
_NOTHING_IN_LEDGER = (
    "CASE WHEN t.outside IS NULL THEN true ELSE COALESCE(django_counters_tail(k), 0) = 0 END"
)

# Entries wait for a counter without a total only if that was deleted. The new total has to say
# that it is of the ledger, or they would be hidden until the next rollup.
_LOST = f"""IF {USED} AND NOT EXISTS (SELECT FROM {COUNTER} t WHERE t.key = k) THEN
      waits := django_counters_tail(k);
    END IF;"""

# Exact: NULL where the limit refuses, or where increments of the counter wait elsewhere. Looked
# at before the row is locked: a later entry belongs to a concurrent change. Nearly
# always the row is there, and an UPDATE takes less time than an INSERT that meets a conflict.
_ADD = f"""
CREATE OR REPLACE FUNCTION django_counters_add(d bigint, bound bigint, k text)
RETURNS bigint {INDEXED} AS $body$
DECLARE result bigint; waits numeric;
BEGIN
  UPDATE {COUNTER} AS t
  SET value = t.value + d, outside = t.outside + d, updated_at = STATEMENT_TIMESTAMP()
  WHERE t.key = k AND CASE WHEN d > 0 THEN t.value <= bound ELSE t.value >= bound END
    AND {_NOTHING_IN_LEDGER}
    AND NOT EXISTS (SELECT FROM {SHARDS} s WHERE s.key = k)
  RETURNING t.value INTO result;
  IF result IS NULL AND ((d > 0 AND bound >= 0) OR (d < 0 AND bound <= 0))
    AND NOT EXISTS (SELECT FROM {SHARDS} s WHERE s.key = k) THEN
    {_LOST}
    IF waits <> 0 THEN
      RETURN NULL;
    END IF;
    INSERT INTO {COUNTER} AS t (key, value, updated_at, outside)
    VALUES (k, d, STATEMENT_TIMESTAMP(), CASE WHEN waits IS NOT NULL THEN d END)
    ON CONFLICT (key) DO UPDATE
    SET value = t.value + d, outside = t.outside + d, updated_at = STATEMENT_TIMESTAMP()
    WHERE CASE WHEN d > 0 THEN t.value <= bound ELSE t.value >= bound END AND {_NOTHING_IN_LEDGER}
    RETURNING t.value INTO result;
  END IF;
  RETURN result;
END $body$
"""

# Rows are locked in the order in which they are inserted; the sort makes that order the same for
# all writers, so that no two of them wait for each other. The amount pending elsewhere is read
# after.
_ADD_MANY = f"""
CREATE OR REPLACE FUNCTION django_counters_add_many(ks text[], ds bigint[])
RETURNS TABLE (k text, v bigint) {INDEXED} AS $body$
DECLARE kept boolean; lost text[];
BEGIN
  lost := ARRAY(SELECT u.k FROM unnest(ks) AS u (k)
    WHERE NOT EXISTS (SELECT FROM {COUNTER} t WHERE t.key = u.k));
  IF cardinality(lost) > 0 THEN
    lost := ARRAY(SELECT l.k FROM django_counters_tails(lost) l);
  END IF;
  WITH done AS (
    INSERT INTO {COUNTER} AS t (key, value, updated_at, outside)
    SELECT u.k, u.d, STATEMENT_TIMESTAMP(), CASE WHEN u.k = ANY (lost) THEN u.d END
    FROM unnest(ks, ds) AS u (k, d) ORDER BY u.k COLLATE "C"
    ON CONFLICT (key) DO UPDATE
    SET value = t.value + EXCLUDED.value, outside = t.outside + EXCLUDED.value,
      updated_at = EXCLUDED.updated_at
    RETURNING t.key, t.value, t.outside IS NOT NULL AS kept)
  SELECT array_agg(done.key), array_agg(done.value), bool_or(done.kept)
  INTO ks, ds, kept FROM done;
  IF kept OR EXISTS (SELECT FROM {SHARDS} WHERE key = ANY (ks)) THEN
    -- A value that does not fit is an error: the cast to bigint raises it.
    RETURN QUERY SELECT u.k, (u.d + COALESCE(
      (SELECT SUM(s.value) FROM {SHARDS} s WHERE s.key = u.k), 0) + COALESCE(l.waits, 0))::bigint
    FROM unnest(ks, ds) AS u (k, d) LEFT JOIN django_counters_tails(ks) l USING (k);
  ELSE
    RETURN QUERY SELECT u.k, u.d FROM unnest(ks, ds) AS u (k, d);
  END IF;
END $body$
"""

# Total, shards and tail of one counter. STABLE: all of it in the snapshot of the caller. Pending
# entries count even if their total was deleted: the next rollup makes it again.
_READ = f"""
CREATE OR REPLACE FUNCTION django_counters_read(k text, OUT total bigint, OUT waits numeric)
STABLE {INDEXED} AS $body$
DECLARE kept boolean;
BEGIN
  SELECT t.value, t.outside IS NOT NULL OR {LOST},
    (SELECT SUM(s.value) FROM {SHARDS} s WHERE s.key = k)
  INTO total, kept, waits FROM (SELECT) one LEFT JOIN {COUNTER} t ON t.key = k;
  IF kept THEN
    waits := COALESCE(waits, 0) + COALESCE(django_counters_tail(k), 0);
  END IF;
END $body$
"""

# An unlocked row is taken; where there is none, a new one is made, until there are `cap`.
# The search begins at a place of the connection's own, so that writers seldom meet. New numbers
# are drawn from all that are free, so that writers who all need one at once seldom wait for the
# same: rows of open transactions are not to be seen. At the cap, and for a row that the caller
# names, the writer waits.
_PICK = """
  IF wanted IS NULL THEN
    IF rows > 1 THEN
      SELECT s.ctid, s.{number} INTO free, wanted FROM {table} s
      WHERE {owned} AND s.{number} >= pg_backend_pid() % rows AND s.{value} BETWEEN low AND high
      ORDER BY s.{number} LIMIT 1 FOR UPDATE SKIP LOCKED;
    END IF;
    IF free IS NULL AND rows > 0 THEN
      SELECT s.ctid, s.{number} INTO free, wanted FROM {table} s
      WHERE {owned} AND s.{number} >= 0 AND s.{value} BETWEEN low AND high
      ORDER BY s.{number} LIMIT 1 FOR UPDATE SKIP LOCKED;
    END IF;
    IF free IS NOT NULL THEN
      UPDATE {table} s SET {value} = s.{value} + d WHERE s.ctid = free;
      {done}
    END IF;
    SELECT g.i INTO wanted FROM generate_series(0, cap - 1) AS g (i)
    WHERE NOT EXISTS (SELECT FROM {table} s WHERE {owned} AND s.{number} = g.i)
    ORDER BY random() LIMIT 1;
    wanted := COALESCE(wanted, floor(random() * cap)::int);
  END IF;
  INSERT INTO {table} AS s ({columns}, {number}, {value}) VALUES ({arguments}, wanted, d)
  ON CONFLICT ({columns}, {number}) DO UPDATE SET {value} = s.{value} + d;
  {done}
"""

# The range of a row before it changes by d.
_LIMITS = """
  free tid;
  low bigint := -9223372036854775808 - LEAST(d, 0);
  high bigint := 9223372036854775807 - GREATEST(d, 0);
"""

# Total and shards are read in one statement, which is one snapshot; then the row is written. The
# new value and the shard that was taken; NULL where the sum would not fit.
_SHARD = (
    f"""
CREATE OR REPLACE FUNCTION django_counters_shard(
  d bigint, cap int, wanted int, k text, OUT v bigint, OUT n int)
{PLANNED_ONCE} AS $body$
DECLARE result numeric; rows int; {_LIMITS}
BEGIN
  SELECT d + COALESCE(SUM(s.value), 0) + (SELECT COALESCE(t.value, 0) + CASE
      WHEN t.outside IS NOT NULL OR {LOST}
      THEN COALESCE(django_counters_tail(k), 0)
      ELSE 0 END FROM (SELECT) one LEFT JOIN {COUNTER} t ON t.key = k),
    COALESCE(MAX(s.shard) + 1, 0)
  INTO result, rows FROM {SHARDS} s WHERE s.key = k;
  IF result NOT BETWEEN -9223372036854775808 AND 9223372036854775807 THEN
    RETURN;
  END IF;
  v := result;
"""
    + _PICK.format(
        table=SHARDS,
        owned="s.key = k",
        columns="key",
        arguments="k",
        number="shard",
        value="value",
        done="n := wanted; RETURN;",
    )
    + """
END $body$
"""
)

_SHARD_MANY = """
CREATE OR REPLACE FUNCTION django_counters_shard_many(ks text[], ds bigint[], cap int)
RETURNS TABLE (k text, v bigint, n int) LANGUAGE plpgsql AS $body$
DECLARE one record;
BEGIN
  FOR one IN SELECT u.k, u.d FROM unnest(ks, ds) AS u (k, d) ORDER BY u.k COLLATE "C" LOOP
    k := one.k;
    SELECT s.v, s.n INTO v, n FROM django_counters_shard(one.d, cap, NULL, one.k) s;
    IF v IS NULL THEN
      RAISE numeric_value_out_of_range USING MESSAGE = 'counter out of range: ' || k;
    END IF;
    RETURN NEXT;
  END LOOP;
END $body$
"""

# STABLE: it reads in the snapshot of the statement that calls it, as that reads the total.
_SLOTS_OF = f"""
CREATE OR REPLACE FUNCTION django_counters_slots(kind int, record text, counter text)
RETURNS numeric STABLE {INDEXED} AS $body$
BEGIN
  RETURN (SELECT COALESCE(SUM(s.count), 0) FROM {SLOTS} s
    WHERE s.record_type_id = kind AND s.record_id = record AND s.name = counter);
END $body$
"""

_WAITS = f"""
CREATE OR REPLACE FUNCTION django_counters_waits(kind int, record text, counter text)
RETURNS boolean STABLE {INDEXED} AS $body$
BEGIN
  RETURN EXISTS (SELECT FROM {SLOTS} s
    WHERE s.record_type_id = kind AND s.record_id = record AND s.name = counter);
END $body$
"""

# The slot that was taken; NULL where the value would leave the range of the column. The value is
# not returned: total and slots have to be read in the snapshot of the statement that calls this.
_SLOT = (
    f"""
CREATE OR REPLACE FUNCTION django_counters_slot(
  d bigint, cap int, kind int, record text, counter text,
  total bigint, least_value bigint, greatest_value bigint)
RETURNS int {PLANNED_ONCE} AS $body$
DECLARE result boolean; rows int; wanted int; {_LIMITS}
BEGIN
  SELECT COALESCE(SUM(s.count), 0) + total + d BETWEEN least_value AND greatest_value,
    COALESCE(MAX(s.slot) + 1, 0)
  INTO result, rows FROM {SLOTS} s
  WHERE s.record_type_id = kind AND s.record_id = record AND s.name = counter;
  IF NOT result THEN
    RETURN NULL;
  END IF;
"""
    + _PICK.format(
        table=SLOTS,
        owned="s.record_type_id = kind AND s.record_id = record AND s.name = counter",
        columns="record_type_id, record_id, name",
        arguments="kind, record, counter",
        number="slot",
        value="count",
        done="RETURN wanted;",
    )
    + """
END $body$
"""
)


def _adding(kind: Kind) -> str:
    """The rows of a kind of what a change of one counter has counted, and its value as it is.

    NULL for the value, or for the row that was taken, is nothing counted. Nearly always a row is
    there, and an UPDATE writes less into the log than an INSERT that meets a conflict.
    """
    given = {one: one for one in kind.letters} | {one: f"{one}s[place]" for one in kind.varied}
    types = {one.letter: one.type for one in kind.columns if one != SHARD}
    # PostgreSQL doesn't take a number that stands in a statement for a smallint.
    taken = {one: "int" if of == "smallint" else of for one, of in types.items()}
    alike = "".join(f", {one} {of}" for one, of in taken.items() if one not in kind.varied)
    varied = "".join(f", {one}s {types[one]}[]" for one in kind.varied)
    same = " AND ".join(f"c.{one.name} = {given[one.letter]}" for one in kind.keys)
    return f"""
CREATE OR REPLACE FUNCTION {function_of(kind)}(
  v anyelement, n int{alike}{varied})
RETURNS anyelement {INDEXED} AS $body$
BEGIN
  IF v IS NULL OR n IS NULL THEN
    RETURN v;
  END IF;
  FOR place IN 1 .. array_length({kind.varied[0]}s, 1) LOOP
    UPDATE {kind.table} AS c SET value = c.value + d WHERE {same};
    IF NOT FOUND THEN
      {insert(kind, f"VALUES ({', '.join(given.values())})")};
    END IF;
  END LOOP;
  RETURN v;
END $body$
"""


# A shard that no other transaction uses. Appends wait for no transaction, so neither do their
# cells, unless as many transactions are open as there are shards. The lock is that of the
# transaction.
_CELL_SHARD = """
CREATE OR REPLACE FUNCTION django_counters_cell_shard() RETURNS int LANGUAGE plpgsql AS $body$
BEGIN
  FOR n IN 0..63 LOOP
    IF pg_try_advisory_xact_lock(hashtext('django_counters_cells'), n) THEN
      RETURN n;
    END IF;
  END LOOP;
  RETURN pg_backend_pid() % 64;
END $body$
"""

_FUNCTIONS = (
    _CELL_SHARD,
    _ADD,
    _ADD_MANY,
    _READ,
    _SHARD,
    _SHARD_MANY,
    _SLOTS_OF,
    _WAITS,
    _SLOT,
    *_RIGHTS,
)
_CORE = "django_counters"
_NAME = re.compile(r"^\s*CREATE (?:OR REPLACE )?FUNCTION (django_counters_[a-z0-9_]+)\s*\(")
# The functions of these names, and those that a comment gives to these owners.
_OURS = (
    "pronamespace = current_schema()::regnamespace AND (proname = ANY (%s) "
    "OR split_part(obj_description(oid, 'pg_proc'), ' ', 1) = ANY (%s))"
)


class _Wanted(NamedTuple):
    """A function, and its comment: the app that it belongs to, and a digest of its text."""

    text: str
    comment: str


def _wanted() -> dict[str, _Wanted]:
    """The functions of the core and of the installed apps, by their names."""
    # The ledger is imported when it is needed.
    ledger = import_string("django_counters.ledger.postgresql.FUNCTIONS")
    first = (_TAIL, _TAILS, *ledger)
    owned = [(_CORE, text) for text in (*first, *_FUNCTIONS)]
    for one in features():
        texts = (*map(_adding, (k for k in one.kinds if k.called)), *one.functions("postgresql"))
        owned += [(type(one).__module__, text) for text in texts]
    wanted: dict[str, _Wanted] = {}
    for owner, text in owned:
        found = _NAME.search(text)
        if found is None or found[1] in wanted:
            problem = (
                f"a function of {owner} has no name of its own. Write CREATE FUNCTION "
                f"django_counters_… with small letters: {text.strip():.60}"
            )
            raise InvalidConfiguration(problem=problem)
        wanted[found[1]] = _Wanted(text, f"{owner} {sha256(text.encode()).hexdigest()}")
    return wanted


def install(using: str) -> None:
    """Make the functions of this version, or remove them where the tables are gone.

    Each function is compared by itself. Functions of an app that isn't installed here stay: another
    project on this database may have it. A function with another result can't be replaced, so it is
    dropped and made again. Who may execute it stays the same.
    """
    wanted = _wanted()
    with transaction.atomic(using=using), connections[using].cursor() as cursor:
        if not any(_wrong(cursor, wanted)):
            return
        # Two of us at once: the second one finds what the first has made.
        cursor.execute("SELECT pg_advisory_xact_lock(hashtext('django_counters_functions'))")
        stale, missing = _wrong(cursor, wanted)
        grants = _grants(cursor, missing)
        for signature in stale:
            cursor.execute(f"DROP FUNCTION {signature}")
        # The tables of an app may come later.
        cursor.execute("SET LOCAL check_function_bodies = off")
        for name in missing:
            cursor.execute(wanted[name].text)
        signatures = _signatures(cursor, missing)
        for name, signature in signatures.items():
            cursor.execute(f"COMMENT ON FUNCTION {signature} IS '{wanted[name].comment}'")
        _grant(cursor, [(signatures[name], grantee) for name, grantee in grants])


def _wrong(cursor: CursorWrapper, wanted: Mapping[str, _Wanted]) -> tuple[list[str], list[str]]:
    """The signatures of functions to drop, and the names of those to make."""
    cursor.execute("SELECT to_regclass(%s) IS NOT NULL", [SLOTS])
    (has_tables,) = cursor.fetchone()
    comments = {name: one.comment for name, one in wanted.items()} if has_tables else {}
    cursor.execute(
        "SELECT proname, oid::regprocedure::text, obj_description(oid, 'pg_proc') FROM pg_proc "
        f"WHERE {_OURS}",
        [list(wanted), list({one.comment.split()[0] for one in wanted.values()})],
    )
    present: list[tuple[str, str, str | None]] = cursor.fetchall()
    right = {name for name, _, comment in present if comment and comment == comments.get(name)}
    stale = [
        signature
        for name, signature, comment in present
        if name not in right or comment != comments[name]
    ]
    return stale, [name for name in comments if name not in right]


def _signatures(cursor: CursorWrapper, names: Sequence[str]) -> dict[str, str]:
    """The functions of these names; another schema may have others, with other arguments."""
    cursor.execute(
        f"SELECT proname, oid::regprocedure::text FROM pg_proc WHERE {_OURS}", [list(names), []]
    )
    return dict(cursor.fetchall())


def _grants(cursor: CursorWrapper, names: Sequence[str]) -> list[tuple[str, str | None]]:
    """Who else may execute functions for which that was ever changed; None: only their owner."""
    cursor.execute(
        "SELECT proname, CASE WHEN a.grantee = 0 THEN 'PUBLIC' ELSE a.grantee::regrole::text END "
        "|| CASE WHEN a.is_grantable THEN ' WITH GRANT OPTION' ELSE '' END "
        "FROM pg_proc LEFT JOIN LATERAL aclexplode(proacl) a ON a.grantee <> proowner "
        f"WHERE {_OURS} AND proacl IS NOT NULL",
        [list(names), []],
    )
    found: list[tuple[str, str | None]] = cursor.fetchall()
    return found


def _grant(cursor: CursorWrapper, grants: Sequence[tuple[str, str | None]]) -> None:
    """Give the same rights to these functions. Others have the usual ones."""
    for signature in dict.fromkeys(signature for signature, _ in grants):
        cursor.execute(f"REVOKE ALL ON FUNCTION {signature} FROM PUBLIC")
    for signature, grantee in grants:
        if grantee is not None:
            cursor.execute(f"GRANT EXECUTE ON FUNCTION {signature} TO {grantee}")
