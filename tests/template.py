"""One database is migrated, and each test database of PostgreSQL is a copy of it."""

from __future__ import annotations

from typing import Any

from django.core.management import call_command
from django.db import connections


def make() -> None:
    """Make the database to copy, unless another process of this run has made it."""
    connection: Any = connections["default"]
    if connection.vendor != "postgresql":
        return
    name = connection.settings_dict["TEST"]["TEMPLATE"]
    with connection._nodb_cursor() as cursor:
        # Held until the connection is closed.
        cursor.execute("SELECT pg_advisory_lock(hashtext(%s))", [name])
        cursor.execute("SELECT FROM pg_database WHERE datname = %s", [name])
        if not cursor.fetchall():
            fresh = f"{name}_fresh"
            cursor.execute(f"DROP DATABASE IF EXISTS {connection.ops.quote_name(fresh)}")
            cursor.execute(f"CREATE DATABASE {connection.ops.quote_name(fresh)}")
            _migrate(connection, fresh)
            cursor.execute(f"ALTER DATABASE {fresh} RENAME TO {name}")


def drop() -> None:
    """Drop it, and whatever else is left of this run, also by workers that have died."""
    connection: Any = connections["default"]
    if connection.vendor != "postgresql":
        return
    ours = connection.settings_dict["TEST"]["TEMPLATE"].removesuffix("template")
    with connection._nodb_cursor() as cursor:
        cursor.execute(
            "SELECT datname FROM pg_database WHERE starts_with(datname::text, %s)", [ours]
        )
        for (name,) in cursor.fetchall():
            quoted = connection.ops.quote_name(name)
            cursor.execute(f"DROP DATABASE IF EXISTS {quoted} WITH (FORCE)")


def _migrate(connection: Any, name: str) -> None:
    before = connection.settings_dict["NAME"]
    connection.settings_dict["NAME"] = name
    try:
        call_command("migrate", verbosity=0, run_syncdb=True)
    finally:
        connection.close()
        connection.settings_dict["NAME"] = before
