"""Which database this is, where several share a Redis."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.db import connections

from django_counters.stores.sql.session import Session

# Databases in the memory of a process all have the same few names.
_PROCESS = secrets.token_hex(6)
# What tests put after each name, so that each of them counts on its own.
_apart = ""


@contextmanager
def apart() -> Iterator[None]:
    """Give all databases names of which nobody has heard, in this process."""
    global _apart  # noqa: PLW0603
    before, _apart = _apart, f" {secrets.token_hex(6)}"
    try:
        yield
    finally:
        _apart = before


def name_of(using: str) -> str:
    """The name of a database, as its settings have it now: that of a test database is another one.

    Asks no server.
    """
    return _name_of(using) + _apart


def _name_of(using: str) -> str:
    connection: Any = connections[using]
    settings = connection.settings_dict
    name = str(settings["NAME"] or settings["OPTIONS"].get("service", ""))
    if connection.vendor != "sqlite":
        return name
    if connection.is_in_memory_db():
        return f"{name} {_PROCESS}"
    return name if name.startswith("file:") else os.path.realpath(name)


def identity_of(using: str) -> str:
    """What no other database has, though it has the same name: not even a restored copy.

    Where the server does not tell it, the name.
    """
    session = Session(using)
    sql = session.dialect.landing.identity
    if not sql:
        return name_of(using)
    ((may_ask,),) = session.run(sql.may_ask, (), writes=False)
    ((identity,),) = session.run(sql.whole if may_ask else sql.part, (), writes=False)
    return str(identity)
