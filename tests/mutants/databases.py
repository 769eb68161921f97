"""The databases of the trials: migrated once, then copied for each of them.

What a mutant changes in the functions of PostgreSQL comes with ``prepare_database``, which makes
those anew that are not as they should be. A mutant of a migration would need databases of its own.
"""

from __future__ import annotations

import os
from collections.abc import Container
from typing import Any

import psycopg
from psycopg import sql

# Which database is the original.
ORIGINAL = "DJC_MUTANT_ORIGINAL"


def make() -> int:
    """Make the original of all, as the tests make theirs."""
    import django

    django.setup()
    from tests import template

    template.make()
    # Whoever looked into it would keep others from copying it.
    _execute(f'ALTER DATABASE "{os.environ[ORIGINAL]}" ALLOW_CONNECTIONS false')
    return 0


def copy(wanted: Container[str]) -> None:
    """Let the connections of this process lead to copies of the original.

    Those that no test asks for are not made: Django refuses to reach them.
    """
    from django.db import connections

    from django_counters.apps import prepare_database

    for alias in connections:
        connection: Any = connections[alias]
        name = connection.settings_dict["TEST"]["NAME"]
        connection.close()
        connection.settings_dict["NAME"] = name
        if alias in wanted:
            # Block by block the copy would go through the log and the buffers of the server.
            original = f'"{os.environ[ORIGINAL]}" STRATEGY file_copy'
            _execute(f'CREATE DATABASE "{name}" TEMPLATE {original}')
            prepare_database(using=alias)


def original(run: str) -> str:
    """The name of the original that a run makes."""
    return f"test_counters_{run}_template"


def drop(run: str) -> None:
    """Drop those that a run has made, whoever is still connected."""
    names = [original(run), *(f"test_counters_{run}_{purpose}" for purpose in ("default", "other"))]
    _execute(*(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)' for name in names))


def _execute(*statements: str) -> None:
    with psycopg.connect(os.environ["DATABASE_URL"], autocommit=True) as connection:
        for statement in statements:
            connection.execute(sql.SQL(statement))
