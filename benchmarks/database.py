"""A database of our own beside the one that a URL names, gone at the end."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager

import dj_database_url
from django.contrib.contenttypes.models import ContentType
from django.core.management import call_command
from django.db import connection

from django_counters.models import (
    Counter,
    CounterArchive,
    CounterDelta,
    CounterHorizon,
    CounterPartition,
    CounterShard,
    CounterToken,
    SlottedCounter,
)

LEDGER = (CounterDelta, CounterHorizon, CounterToken, CounterPartition, CounterArchive)


@contextmanager
def scratch(url: str) -> Iterator[str]:
    """Make a database with all tables, point the connection at it, give its name, and drop it."""
    connection.close()
    connection.settings_dict.update(dj_database_url.parse(url))
    name = f"counters_benchmarks_{os.getpid()}_{secrets.token_hex(4)}"
    own = str(connection.settings_dict["NAME"])
    _statement(f"CREATE DATABASE {connection.ops.quote_name(name)}")
    try:
        use(name)
        _make_tables()
        yield name
    finally:
        use(own)
        _statement(f"DROP DATABASE {connection.ops.quote_name(name)} WITH (FORCE)")
        connection.close()


def use(name: str) -> None:
    """Let the next statement of this process go to another database of the same server."""
    connection.close()
    connection.settings_dict["NAME"] = name
    ContentType.objects.clear_cache()  # its numbers are those of the database before


def settle() -> None:
    """Let no case depend on whether autovacuum has been there: the planner knows all tables.

    In a table of which nothing is known plans differ from those of a table that is used.
    """
    from benchmarks.models import NaiveCounter, Post

    models = (Counter, CounterShard, SlottedCounter, *LEDGER, NaiveCounter, Post)
    _statement(f"VACUUM ANALYZE {', '.join(model._meta.db_table for model in models)}")


def _statement(sql: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(sql)


def _make_tables() -> None:
    from benchmarks.models import NaiveCounter, Post

    call_command("migrate", verbosity=0)
    with connection.schema_editor() as editor:
        editor.create_model(NaiveCounter)
        editor.create_model(Post)
