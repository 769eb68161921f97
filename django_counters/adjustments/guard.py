"""The guard of the adjustments: triggers by which the database refuses to change or delete them."""

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
    """Make the guard, where the table is there and it is not as it should be.

    Args:
        using: the database.
        flushable: whether the whole table may be emptied at once, as Django does after tests with
            transactions; None: in a test database.
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
        # Two of us at once: the second one finds what the first has made.
        if state(using) != wanted:
            guard = audit.flushable if wanted == FLUSHABLE else audit.strict
            _execute(using, *audit.remove, *guard.make)


def remove(using: str) -> None:
    """Remove the guard, or the rest of it."""
    with _atomic(using):
        _execute(using, *audit_of(using).remove)


def state(using: str) -> str:
    """The state of the guard: ``strict``, ``flushable``, ``loose`` or ``missing``.

    It is loose where a trigger is missing, is switched off, or does something else.
    """
    audit = audit_of(using)
    found = present(using)
    if found == audit.strict.looks:
        return STRICT
    if found == audit.flushable.looks:
        return FLUSHABLE
    return LOOSE if found else MISSING


def present(using: str) -> dict[str, str]:
    """The triggers of the guard as they are: a definition for each name."""
    with connections[using].cursor() as cursor:
        cursor.execute(audit_of(using).present)
        return dict(cursor.fetchall())


def wanted_state(using: str) -> str:
    """The right state of the guard in this database: ``strict``, or ``flushable`` for tests."""
    connection: Any = connections[using]
    if connection.vendor == "sqlite" and connection.is_in_memory_db():
        return FLUSHABLE
    name = str(connection.settings_dict["NAME"])
    made_for_tests = connection.settings_dict.get("TEST", {}).get("NAME")
    if name.startswith(TEST_DATABASE_PREFIX) or name == str(made_for_tests or ""):
        return FLUSHABLE
    return STRICT


def _atomic(using: str) -> transaction.Atomic:
    """A transaction; no savepoint in one where triggers commit what was done before."""
    keeps = connections[using].features.can_rollback_ddl
    return transaction.atomic(using=using, savepoint=keeps)


def _execute(using: str, *statements: str) -> None:
    with connections[using].cursor() as cursor:
        for statement in filter(None, statements):
            cursor.execute(statement)
