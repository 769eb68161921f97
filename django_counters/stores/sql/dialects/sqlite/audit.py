"""The guard in SQLite. Any owner of the file can remove it: there are no roles."""

from __future__ import annotations

from django_counters.stores.sql.dialects.audit import (
    ADJUSTMENTS,
    NOT_NEXT,
    REFUSED,
    Audit,
    Guard,
)

_NAME = "django_counters_guard"


def _trigger(event: str, message: str, when: str = "") -> tuple[str, str]:
    name = f"{_NAME}_{event.lower()}"
    condition = f"WHEN {when} " if when else ""
    return name, (
        f"CREATE TRIGGER {name} BEFORE {event} ON {ADJUSTMENTS} {condition}"
        f"BEGIN SELECT RAISE(ABORT, '{message}'); END"
    )


def _guard(*triggers: tuple[str, str]) -> Guard:
    looks = dict(triggers)
    return Guard(make=tuple(looks.values()), looks=looks)


_UPDATE = _trigger("UPDATE", REFUSED)
_DELETE = _trigger("DELETE", REFUSED)
# REPLACE deletes the row that is in its way, by number or by rowid, and fires no trigger for that.
_INSERT = _trigger(
    "INSERT",
    NOT_NEXT,
    f"NEW.number <> (SELECT COALESCE(MAX(number), 0) + 1 FROM {ADJUSTMENTS}) "
    f"OR EXISTS (SELECT 1 FROM {ADJUSTMENTS} WHERE rowid = NEW.rowid)",
)


class SqliteAudit(Audit):
    """The statements around adjustments."""

    # SQLite gives up at once where a reader becomes a writer: be one from the start.
    alone = f"UPDATE {ADJUSTMENTS} SET number = number WHERE false RETURNING 1"
    strict = _guard(_UPDATE, _DELETE, _INSERT)
    # Django empties a table with DELETE here.
    flushable = _guard(_UPDATE, _INSERT)
    remove = tuple(f"DROP TRIGGER IF EXISTS {name}" for name in strict.looks)
    present = (
        "SELECT name, sql FROM sqlite_master "
        f"WHERE type = 'trigger' AND tbl_name = '{ADJUSTMENTS}' AND name GLOB '{_NAME}_*'"
    )
