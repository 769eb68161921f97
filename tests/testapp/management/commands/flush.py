"""Empties a test database as Django's ``flush`` does, in a small part of the time.

Most tests fill a few of the tables. Only those are emptied, by DELETE, which needs no new files as
TRUNCATE does. What a migration makes stays: content types, permissions, functions, triggers and
partitions. A test that changed one of these pays for Django's own way.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from django.core.management.base import CommandError
from django.core.management.color import no_style
from django.core.management.commands import flush
from django.db import connections

from django_counters.ledger.horizon import SqlHorizon
from django_counters.models import CounterAdjustment, CounterHorizon
from django_counters.registry import registry

MADE_ONCE = ("django_content_type", "auth_permission")
# A row of a table that has triggers of its own may refuse to be deleted.
GUARDED = CounterAdjustment._meta.db_table
HORIZON = CounterHorizon._meta.db_table
OBJECTS = (
    "SELECT concat_ws(' ', oid, relname) FROM pg_class "
    "WHERE relnamespace = current_schema()::regnamespace AND relkind IN ('r', 'p', 'v') "
    "UNION ALL SELECT concat_ws(' ', oid, tgrelid, tgname, tgtype, tgenabled, tgfoid) "
    "FROM pg_trigger WHERE NOT tgisinternal "
    "UNION ALL SELECT concat_ws(' ', oid, xmin, obj_description(oid, 'pg_proc')) FROM pg_proc "
    "WHERE pronamespace = current_schema()::regnamespace"
)


class Made(NamedTuple):
    """What stands in a database that is empty, as texts: rows, the horizon, and all else."""

    rows: str
    horizon: str
    objects: str


class Command(flush.Command):
    """Replaces Django's in the tests."""

    _made: dict[str, Made] = {}
    _tables: dict[str, list[str]] = {}

    def handle(self, **options: Any) -> None:
        """Empty what is filled."""
        using: str = options["database"]
        if connections[using].vendor != "postgresql" or options.get("inhibit_post_migrate"):
            super().handle(**options)
            return
        _refuse_what_is_open(using)
        made, busy = self._made.get(using), _others_write(using)
        now, filled = self._looked_at(using)
        if busy or made is None or made.rows != now.rows or made.objects != now.objects:
            super().handle(**options)
            self._remember(using)
            return
        self._empty(using, filled if made.horizon == now.horizon else [*filled, HORIZON])
        if made.horizon != now.horizon:
            SqlHorizon(using).found()
        registry.forget_strategies()

    def _looked_at(self, using: str) -> tuple[Made, list[str]]:
        """What is made once, as it is now, and the tables that have other rows."""
        quote = connections[using].ops.quote_name
        rows = " || ".join(f"({_text_of(quote(table))})" for table in MADE_ONCE)
        filled = " UNION ALL ".join(
            f"SELECT '{name}' WHERE EXISTS (SELECT FROM {quote(name)})"
            for name in self._tables.get(using, ())
        )
        with connections[using].cursor() as cursor:
            cursor.execute(
                f"SELECT MD5({rows}), ({_text_of(HORIZON)}), "
                f"(SELECT MD5(STRING_AGG(one, ';' ORDER BY one)) FROM ({OBJECTS}) made (one)), "
                f"ARRAY({filled or 'SELECT NULL WHERE FALSE'})"
            )
            *made, names = cursor.fetchone()
        return Made(*made), names

    def _remember(self, using: str) -> None:
        names = connections[using].introspection.django_table_names(
            only_existing=True, include_views=False
        )
        self._tables[using] = [name for name in names if name not in (*MADE_ONCE, HORIZON)]
        self._made[using], _ = self._looked_at(using)

    def _empty(self, using: str, filled: Sequence[str]) -> None:
        ops = connections[using].ops
        statements = [f"DELETE FROM {ops.quote_name(name)}" for name in filled if name != GUARDED]
        if GUARDED in filled:
            statements += ops.sql_flush(no_style(), [GUARDED], allow_cascade=True)
        if statements:
            with connections[using].cursor() as cursor:
                # In one message they are one transaction.
                cursor.execute("; ".join(statements))


def _refuse_what_is_open(using: str) -> None:
    """What is deleted in a transaction that a test has left open would come back with its end."""
    connection: Any = connections[using]
    if connection.connection is None:
        return
    if connection.connection.info.transaction_status.name in ("ACTIVE", "INTRANS", "INERROR"):
        connection.close()
        raise CommandError(f"a test has left a transaction open in {using!r}")


def _others_write(using: str) -> bool:
    """Whether somebody has rows that nobody sees yet. TRUNCATE waits for them, DELETE does not."""
    with connections[using].cursor() as cursor:
        cursor.execute(
            "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() "
            "AND backend_type = 'client backend' AND backend_xid IS NOT NULL "
            "AND pid <> pg_backend_pid())"
        )
        return bool(cursor.fetchone()[0])


def _text_of(table: str) -> str:
    return f"SELECT COALESCE(STRING_AGG(t::text, ';' ORDER BY id), '') FROM {table} t"
