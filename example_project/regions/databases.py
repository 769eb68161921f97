"""A database for each region, on the server of ``DATABASE_URL``, gone at the end."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from django.core.management import call_command
from django.db import connection

Place = dict[str, Any]


@contextmanager
def databases(regions: Sequence[str]) -> Iterator[dict[str, Place]]:
    """Make them, and give where each of them is."""
    run, own = secrets.token_hex(4), str(connection.settings_dict["NAME"])
    names = {region: f"counters_regions_{run}_{region}" for region in regions}
    template = ""
    try:
        for name in names.values():
            _execute(f"CREATE DATABASE {name}{template}")
            if not template:
                _migrate(name, own)
                template = f" TEMPLATE {name}"
        yield {region: {**_server(), "NAME": name} for region, name in names.items()}
    finally:
        for name in names.values():
            _execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
        connection.close()


def _server() -> Place:
    """Where the server is, however its URL says that."""
    given = connection.settings_dict
    options = dict(given.get("OPTIONS", {}))
    host, port = (options.pop(name, "") or given[name.upper()] for name in ("host", "port"))
    login = {name: given[name] for name in ("USER", "PASSWORD")}
    return {**login, "HOST": host or "localhost", "PORT": str(port or 5432), "OPTIONS": options}


def _migrate(name: str, own: str) -> None:
    _use(name)
    try:
        call_command("migrate", verbosity=0)
    finally:
        _use(own)


def _use(name: str) -> None:
    connection.close()
    connection.settings_dict["NAME"] = name


def _execute(statement: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement)
