"""The guard in PostgreSQL.

It binds every role. The owner of the table, and a superuser, can remove it: `docs/how-to/audit.md`
says how the application gets a role that is neither.
"""

from __future__ import annotations

import hashlib

from django_counters.stores.sql.dialects.audit import (
    ADJUSTMENTS,
    HINT,
    NOT_NEXT,
    REFUSED,
    Audit,
    Guard,
)

_REFUSE = "django_counters_guard"
_NEXT = "django_counters_guard_next"

# No schema of the caller's: its owner could answer with tables and operators of his own.
_HEAD = "RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $body${}$body$"

# An empty table may be emptied.
_REFUSE_BODY = f"""
DECLARE filled boolean := true;
BEGIN
  IF TG_OP = 'TRUNCATE' THEN
    EXECUTE format('SELECT EXISTS (SELECT FROM %I.%I)', TG_TABLE_SCHEMA, TG_TABLE_NAME)
    INTO filled;
  END IF;
  IF filled THEN
    RAISE restrict_violation USING MESSAGE = '{REFUSED}', HINT = '{HINT}',
      SCHEMA = TG_TABLE_SCHEMA, TABLE = TG_TABLE_NAME;
  END IF;
  RETURN NULL;
END
"""

_NEXT_BODY = f"""
DECLARE next bigint;
BEGIN
  EXECUTE format('SELECT COALESCE(MAX(number), 0) + 1 FROM %I.%I',
    TG_TABLE_SCHEMA, TG_TABLE_NAME) INTO next;
  IF NEW.number <> next THEN
    RAISE restrict_violation USING MESSAGE = '{NOT_NEXT}',
      SCHEMA = TG_TABLE_SCHEMA, TABLE = TG_TABLE_NAME;
  END IF;
  RETURN NEW;
END
"""

# Bits of tgtype.
_ROW, _BEFORE, _INSERT, _DELETE, _UPDATE, _TRUNCATE = 1, 2, 4, 8, 16, 32


def _function(name: str, body: str) -> str:
    return f"CREATE OR REPLACE FUNCTION {name}() {_HEAD.format(body)}"


def _trigger(name: str, events: str, each: str, function: str) -> str:
    return (
        f"CREATE TRIGGER {name} BEFORE {events} ON {ADJUSTMENTS} "
        f"FOR EACH {each} EXECUTE FUNCTION {function}()"
    )


def _look(kind: int, enabled: str, body: str) -> str:
    return f"{kind} {enabled} {hashlib.sha256(body.encode()).hexdigest()}"


def _guard(events: str, kind: int) -> Guard:
    """``events``: what no statement may do, even to no row; ``kind``: the same as bits."""
    return Guard(
        make=(
            _function(_REFUSE, _REFUSE_BODY),
            _function(_NEXT, _NEXT_BODY),
            _trigger(f"{_REFUSE}_statement", events, "STATEMENT", _REFUSE),
            # The server of a subscription fires no triggers for statements.
            _trigger(f"{_REFUSE}_row", "UPDATE OR DELETE", "ROW", _REFUSE),
            _trigger(_NEXT, "INSERT", "ROW", _NEXT),
            # ALWAYS: with any session_replication_role. Not so the third: a subscription and a
            # restore may copy rows in another order.
            f"ALTER TABLE {ADJUSTMENTS} ENABLE ALWAYS TRIGGER {_REFUSE}_statement",
            f"ALTER TABLE {ADJUSTMENTS} ENABLE ALWAYS TRIGGER {_REFUSE}_row",
        ),
        looks={
            f"{_REFUSE}_statement": _look(_BEFORE | kind, "A", _REFUSE_BODY),
            f"{_REFUSE}_row": _look(_ROW | _BEFORE | _DELETE | _UPDATE, "A", _REFUSE_BODY),
            _NEXT: _look(_ROW | _BEFORE | _INSERT, "O", _NEXT_BODY),
        },
    )


class PostgresAudit(Audit):
    """The statements around adjustments."""

    alone = "SELECT pg_advisory_xact_lock(hashtext('django_counters_adjustments'))::text"
    strict = _guard("UPDATE OR DELETE OR TRUNCATE", _UPDATE | _DELETE | _TRUNCATE)
    # Django empties a table with TRUNCATE here.
    flushable = _guard("UPDATE OR DELETE", _UPDATE | _DELETE)
    # By name first: a trigger may have been given another function.
    remove = (
        f"DROP TRIGGER IF EXISTS {_REFUSE}_statement ON {ADJUSTMENTS}",
        f"DROP TRIGGER IF EXISTS {_REFUSE}_row ON {ADJUSTMENTS}",
        f"DROP TRIGGER IF EXISTS {_NEXT} ON {ADJUSTMENTS}",
        f"DROP FUNCTION IF EXISTS {_REFUSE}() CASCADE",
        f"DROP FUNCTION IF EXISTS {_NEXT}() CASCADE",
    )
    # A condition, a list of columns or other settings of the function make it another guard.
    present = (
        "SELECT t.tgname::text, concat_ws(' ', t.tgtype, t.tgenabled, "
        "encode(sha256(convert_to(p.prosrc, 'UTF8')), 'hex'), pg_get_expr(t.tgqual, t.tgrelid), "
        "NULLIF(t.tgattr::text, ''), CASE WHEN p.proconfig::text IS DISTINCT FROM "
        "'{\"search_path=pg_catalog, pg_temp\"}' THEN 'search_path' END) "
        "FROM pg_trigger t JOIN pg_proc p ON p.oid = t.tgfoid "
        f"WHERE t.tgrelid = to_regclass('{ADJUSTMENTS}') AND t.tgname LIKE '{_REFUSE}%'"
    )
