"""A database and a part of a Redis of our own where URLs lead to, gone at the end."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager

import dj_database_url
import redis
from django.conf import settings
from django.contrib.contenttypes.models import ContentType
from django.core.management import call_command
from django.db import connection, connections
from django.db.models import Model
from django.test import override_settings

from benchmarks.inspection import execute
from django_counters.cached.sources import slots_of
from django_counters.contrib.series.models import CounterCell
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
from django_counters.redis.keys import SLOTS

LEDGER = (CounterDelta, CounterHorizon, CounterToken, CounterPartition, CounterArchive)


@contextmanager
def scratch(url: str) -> Iterator[str]:
    """Make a database with all tables, point the connection at it, give its name, and drop it."""
    connection.close()
    connection.settings_dict.update(dj_database_url.parse(url))
    name = _fresh_name()
    own = str(connection.settings_dict["NAME"])
    execute(f"CREATE DATABASE {connection.ops.quote_name(name)}")
    try:
        use(name)
        _make_tables()
        yield name
    finally:
        use(own)
        force = " WITH (FORCE)" if connection.vendor == "postgresql" else ""
        execute(f"DROP DATABASE {connection.ops.quote_name(name)}{force}")
        connection.close()


@contextmanager
def beside(alias: str) -> Iterator[None]:
    """Let an alias be another database of the same server, with the library's tables; drop it."""
    other, name = connections[alias], _fresh_name()
    before = dict(other.settings_dict)
    execute(f"CREATE DATABASE {connection.ops.quote_name(name)}")
    try:
        other.close()
        other.settings_dict.update({**connection.settings_dict, "NAME": name})
        call_command("migrate", database=alias, verbosity=0)
        yield
    finally:
        other.close()
        other.settings_dict.update(before)
        execute(f"DROP DATABASE {connection.ops.quote_name(name)} WITH (FORCE)")


def _fresh_name() -> str:
    return f"counters_benchmarks_{os.getpid()}_{secrets.token_hex(4)}"


def use(name: str) -> None:
    """Let the next statement of this process go to another database of the same server."""
    connection.close()
    connection.settings_dict["NAME"] = name
    ContentType.objects.clear_cache()  # its numbers are those of the database before


def known(*models: type[Model]) -> None:
    """Let the planner know what is in the tables; see `settle`."""
    execute(f"VACUUM ANALYZE {', '.join(model._meta.db_table for model in models)}")


def settle() -> None:
    """Let no case depend on whether autovacuum has been there: the planner knows all tables.

    In a table of which nothing is known plans differ from those of a table that is used.
    """
    from benchmarks.models import NaiveCounter, Post

    if connection.vendor != "postgresql":
        return
    models = (Counter, CounterCell, CounterShard, SlottedCounter, *LEDGER, NaiveCounter, Post)
    execute(f"VACUUM ANALYZE {', '.join(model._meta.db_table for model in models)}")


@contextmanager
def apart(url: str) -> Iterator[str]:
    """Let the cache be in the Redis of a URL, with a prefix of its own: the prefix."""
    prefix = f"benchmarks_{secrets.token_hex(4)}"
    default = {**settings.CACHES["default"], "LOCATION": url, "KEY_PREFIX": prefix}
    with override_settings(CACHES={**settings.CACHES, "default": default}):
        try:
            yield prefix
        finally:
            _forget(url, prefix)


def _forget(url: str, prefix: str) -> None:
    """Delete what we have left in a Redis."""
    slots = slots_of("default", prefix)
    with redis.Redis.from_url(url) as client:
        client.delete(*(key for slot in range(SLOTS) for key in slots.keys(slot)), slots.flight)
        for key in client.scan_iter(f"*{prefix}*", 1000):
            client.delete(key)


def _make_tables() -> None:
    from benchmarks.models import NaiveCounter, Post

    call_command("migrate", verbosity=0)
    with connection.schema_editor() as editor:
        editor.create_model(NaiveCounter)
        editor.create_model(Post)
