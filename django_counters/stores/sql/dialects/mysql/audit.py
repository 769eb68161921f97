"""The guard in MySQL. TRUNCATE passes it, and so does whoever may drop triggers."""

from __future__ import annotations

from django_counters.stores.sql.dialects.audit import (
    ADJUSTMENTS,
    NOT_NEXT,
    REFUSED,
    Audit,
    Guard,
)

#: A table of one row, which whoever adjusts holds.
CHAIN = "django_counters_counterchain"
_NAME = "django_counters_guard"


#: The number that MariaDB gives to a CHECK that is not met: Django calls it an error of integrity.
#: That of MySQL is 3819, which IGNORE makes a warning.
_NOT_MET = 4025


def _refuse(message: str) -> str:
    return f"SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = {_NOT_MET}, MESSAGE_TEXT = '{message}'"


_BODIES = {
    "UPDATE": _refuse(REFUSED),
    "DELETE": _refuse(REFUSED),
    "INSERT": (
        f"IF NEW.number <> (SELECT COALESCE(MAX(number), 0) + 1 FROM {ADJUSTMENTS}) "
        f"THEN {_refuse(NOT_NEXT)}; END IF"
    ),
}


def _guard(*events: str) -> Guard:
    names = {event: f"{_NAME}_{event.lower()}" for event in events}
    return Guard(
        make=tuple(
            f"CREATE TRIGGER {name} BEFORE {event} ON {ADJUSTMENTS} FOR EACH ROW {_BODIES[event]}"
            for event, name in names.items()
        ),
        looks={name: f"BEFORE {event} {_BODIES[event]}" for event, name in names.items()},
    )


class MysqlAudit(Audit):
    """The statements around adjustments."""

    alone = f"SELECT id FROM {CHAIN} WHERE id = 1 FOR UPDATE"
    strict = _guard("UPDATE", "DELETE", "INSERT")
    # Django empties a table with DELETE here.
    flushable = _guard("UPDATE", "INSERT")
    remove = tuple(f"DROP TRIGGER IF EXISTS {name}" for name in strict.looks)
    present = (
        "SELECT trigger_name, CONCAT(action_timing, ' ', event_manipulation, ' ', "
        "action_statement) FROM information_schema.triggers WHERE trigger_schema = DATABASE() "
        f"AND event_object_table = '{ADJUSTMENTS}' AND trigger_name LIKE '{_NAME}%%'"
    )
