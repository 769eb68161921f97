"""The statements around adjustments, and the triggers that guard them, for each database."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import NamedTuple

from django.db import connections

from django_counters.stores.sql.dialects.spelling import CHAIN

ADJUSTMENTS = "django_counters_counteradjustment"
REFUSED = "adjustments are never changed or deleted"
NOT_NEXT = "an adjustment has the number after the last one"
HINT = (
    "A wrong adjustment is corrected by another one. To empty a database for development, as flush "
    "does, drop it and migrate again."
)


class Guard(NamedTuple):
    """Triggers that refuse to change or delete adjustments.

    Attributes:
        make: the statements that create them.
        looks: the definition for each name, as ``Audit.present`` returns it.
    """

    make: tuple[str, ...]
    looks: Mapping[str, str]


class Audit:
    """The statements around adjustments.

    Attributes:
        alone: lock the chain until the transaction ends.
        strict: the guard of a normal database.
        flushable: the guard of a test database, which lets the whole table be emptied at once.
        remove: the statements that remove either guard, even an incomplete one.
        present: the present triggers of the guard. Rows: name, definition.
    """

    alone: str
    strict: Guard
    flushable: Guard
    remove: tuple[str, ...]
    present: str


# -- PostgreSQL


_REFUSE = "django_counters_guard"
_NEXT = "django_counters_guard_next"

# Excludes the caller's schemas: their owner could add tables and operators of the same names.
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


def _postgres_trigger(name: str, events: str, each: str, function: str) -> str:
    return (
        f"CREATE TRIGGER {name} BEFORE {events} ON {ADJUSTMENTS} "
        f"FOR EACH {each} EXECUTE FUNCTION {function}()"
    )


def _look(kind: int, enabled: str, body: str) -> str:
    return f"{kind} {enabled} {hashlib.sha256(body.encode()).hexdigest()}"


def _postgres_guard(events: str, kind: int) -> Guard:
    """Return a guard. ``events``: the statements to refuse, even for no row; ``kind``: as bits."""
    return Guard(
        make=(
            _function(_REFUSE, _REFUSE_BODY),
            _function(_NEXT, _NEXT_BODY),
            _postgres_trigger(f"{_REFUSE}_statement", events, "STATEMENT", _REFUSE),
            # A subscription's server fires no statement triggers.
            _postgres_trigger(f"{_REFUSE}_row", "UPDATE OR DELETE", "ROW", _REFUSE),
            _postgres_trigger(_NEXT, "INSERT", "ROW", _NEXT),
            # ALWAYS: under any session_replication_role. Not for the third trigger: a subscription
            # and a restore may copy rows in another order.
            f"ALTER TABLE {ADJUSTMENTS} ENABLE ALWAYS TRIGGER {_REFUSE}_statement",
            f"ALTER TABLE {ADJUSTMENTS} ENABLE ALWAYS TRIGGER {_REFUSE}_row",
        ),
        looks={
            f"{_REFUSE}_statement": _look(_BEFORE | kind, "A", _REFUSE_BODY),
            f"{_REFUSE}_row": _look(_ROW | _BEFORE | _DELETE | _UPDATE, "A", _REFUSE_BODY),
            _NEXT: _look(_ROW | _BEFORE | _INSERT, "O", _NEXT_BODY),
        },
    )


class _PostgresAudit(Audit):
    """The statements around adjustments."""

    alone = "SELECT pg_advisory_xact_lock(hashtext('django_counters_adjustments'))::text"
    strict = _postgres_guard("UPDATE OR DELETE OR TRUNCATE", _UPDATE | _DELETE | _TRUNCATE)
    # Django empties a table with TRUNCATE here.
    flushable = _postgres_guard("UPDATE OR DELETE", _UPDATE | _DELETE)
    # By name first: a trigger may call another function.
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


# -- MySQL and MariaDB


_NAME = "django_counters_guard"


#: MariaDB's number for a failed CHECK, which Django maps to IntegrityError. IGNORE turns MySQL's
#: number, 3819, into a warning.
_NOT_MET = 4025


def _mysql_refuse(message: str) -> str:
    return f"SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = {_NOT_MET}, MESSAGE_TEXT = '{message}'"


_BODIES = {
    "UPDATE": _mysql_refuse(REFUSED),
    "DELETE": _mysql_refuse(REFUSED),
    "INSERT": (
        f"IF NEW.number <> (SELECT COALESCE(MAX(number), 0) + 1 FROM {ADJUSTMENTS}) "
        f"THEN {_mysql_refuse(NOT_NEXT)}; END IF"
    ),
}


def _mysql_guard(*events: str) -> Guard:
    names = {event: f"{_NAME}_{event.lower()}" for event in events}
    return Guard(
        make=tuple(
            f"CREATE TRIGGER {name} BEFORE {event} ON {ADJUSTMENTS} FOR EACH ROW {_BODIES[event]}"
            for event, name in names.items()
        ),
        looks={name: f"BEFORE {event} {_BODIES[event]}" for event, name in names.items()},
    )


class _MysqlAudit(Audit):
    """The statements around adjustments."""

    alone = f"SELECT id FROM {CHAIN} WHERE id = 1 FOR UPDATE"
    strict = _mysql_guard("UPDATE", "DELETE", "INSERT")
    # Django empties a table with DELETE here.
    flushable = _mysql_guard("UPDATE", "INSERT")
    remove = tuple(f"DROP TRIGGER IF EXISTS {name}" for name in strict.looks)
    present = (
        "SELECT trigger_name, CONCAT(action_timing, ' ', event_manipulation, ' ', "
        "action_statement) FROM information_schema.triggers WHERE trigger_schema = DATABASE() "
        f"AND event_object_table = '{ADJUSTMENTS}' AND trigger_name LIKE '{_NAME}%%'"
    )


# -- SQLite


def _sqlite_trigger(event: str, message: str, when: str = "") -> tuple[str, str]:
    name = f"{_NAME}_{event.lower()}"
    condition = f"WHEN {when} " if when else ""
    return name, (
        f"CREATE TRIGGER {name} BEFORE {event} ON {ADJUSTMENTS} {condition}"
        f"BEGIN SELECT RAISE(ABORT, '{message}'); END"
    )


def _sqlite_guard(*triggers: tuple[str, str]) -> Guard:
    looks = dict(triggers)
    return Guard(make=tuple(looks.values()), looks=looks)


_NO_UPDATE = _sqlite_trigger("UPDATE", REFUSED)
_NO_DELETE = _sqlite_trigger("DELETE", REFUSED)
# REPLACE deletes a conflicting row, by number or by rowid, without firing a trigger.
_NO_INSERT = _sqlite_trigger(
    "INSERT",
    NOT_NEXT,
    f"NEW.number <> (SELECT COALESCE(MAX(number), 0) + 1 FROM {ADJUSTMENTS}) "
    f"OR EXISTS (SELECT 1 FROM {ADJUSTMENTS} WHERE rowid = NEW.rowid)",
)


class _SqliteAudit(Audit):
    """The statements around adjustments."""

    # SQLite fails at once if a reader becomes a writer, so begin as a writer.
    alone = f"UPDATE {ADJUSTMENTS} SET number = number WHERE false RETURNING 1"
    strict = _sqlite_guard(_NO_UPDATE, _NO_DELETE, _NO_INSERT)
    # Django empties a table with DELETE here.
    flushable = _sqlite_guard(_NO_UPDATE, _NO_INSERT)
    remove = tuple(f"DROP TRIGGER IF EXISTS {name}" for name in strict.looks)
    present = (
        "SELECT name, sql FROM sqlite_master "
        f"WHERE type = 'trigger' AND tbl_name = '{ADJUSTMENTS}' AND name GLOB '{_NAME}_*'"
    )


_AUDITS: Mapping[str, Audit] = {
    "postgresql": _PostgresAudit(),
    "mysql": _MysqlAudit(),
    "sqlite": _SqliteAudit(),
}


def audit_of(using: str) -> Audit:
    """Return the statements for a database alias; opens no connection."""
    return _AUDITS[connections[using].vendor]
