"""The guard of adjustments: triggers that refuse to change or delete them."""

from __future__ import annotations

from typing import Any

from django.db import connections, transaction
from django.db.backends.base.creation import TEST_DATABASE_PREFIX

from django_counters.adjustments.models import CounterAdjustment
from django_counters.adjustments.statements import audit_of

STRICT = "strict"
FLUSHABLE = "flushable"
LOOSE = "loose"
MISSING = "missing"


def make(using: str, *, flushable: bool | None = None) -> None:
    """Create the guard, if the table exists and the guard is missing or wrong.

    Args:
        using: the database.
        flushable: whether the whole table may be emptied at once, as Django does after tests with
            transactions; None: only in a test database.
    """
    connection = connections[using]
    if CounterAdjustment._meta.db_table not in connection.introspection.table_names():
        return
    wanted = wanted_state(using) if flushable is None else FLUSHABLE if flushable else STRICT
    if state(using) == wanted:
        return
    audit = audit_of(using)
    with _atomic(using):
        _execute(using, audit.alone)
        # Of two concurrent calls the second one sees the guard of the first.
        if state(using) != wanted:
            guard = audit.flushable if wanted == FLUSHABLE else audit.strict
            _execute(using, *audit.remove, *guard.make)


def remove(using: str) -> None:
    """Remove the guard, even an incomplete one."""
    with _atomic(using):
        _execute(using, *audit_of(using).remove)


def state(using: str) -> str:
    """Return the state of the guard: ``strict``, ``flushable``, ``loose`` or ``missing``.

    It is loose if a trigger is missing, is disabled, or does something else.
    """
    audit = audit_of(using)
    triggers = present(using)
    if triggers == audit.strict.looks:
        return STRICT
    if triggers == audit.flushable.looks:
        return FLUSHABLE
    return LOOSE if triggers else MISSING


def present(using: str) -> dict[str, str]:
    """Return the present triggers of the guard: {name: definition}."""
    with connections[using].cursor() as cursor:
        cursor.execute(audit_of(using).present)
        return dict(cursor.fetchall())


def wanted_state(using: str) -> str:
    """Return the right state of the guard here: ``strict``, or ``flushable`` in a test database."""
    connection: Any = connections[using]
    if connection.vendor == "sqlite" and connection.is_in_memory_db():
        return FLUSHABLE
    name = str(connection.settings_dict["NAME"])
    made_for_tests = connection.settings_dict.get("TEST", {}).get("NAME")
    if name.startswith(TEST_DATABASE_PREFIX) or name == str(made_for_tests or ""):
        return FLUSHABLE
    return STRICT


def _atomic(using: str) -> transaction.Atomic:
    """Return a transaction, without a savepoint if DDL commits implicitly."""
    keeps = connections[using].features.can_rollback_ddl
    return transaction.atomic(using=using, savepoint=keeps)


def _execute(using: str, *statements: str) -> None:
    with connections[using].cursor() as cursor:
        for statement in filter(None, statements):
            cursor.execute(statement)
