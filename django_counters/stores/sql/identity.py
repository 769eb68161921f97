"""Which database this is, where several share a Redis."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.db import connections
from django.db.backends.base.creation import TEST_DATABASE_PREFIX

from django_counters.stores.sql.session import Session
from django_counters.tenants import tenant

# Databases in the memory of a process all have the same few names.
_PROCESS = secrets.token_hex(6)
# What tests add, so that each of them counts on its own.
_apart = ""


@contextmanager
def apart() -> Iterator[None]:
    """Count in parts that nothing else knows, in this process."""
    global _apart  # noqa: PLW0603
    before, _apart = _apart, f" {secrets.token_hex(6)}"
    try:
        yield
    finally:
        _apart = before


def block() -> str:
    """Return what the innermost block of `apart` adds; "" outside."""
    return _apart


def part_of(using: str) -> str:
    """Return the text that keeps tenants and tests apart in Redis; "" for a site without tenants.

    A site may call its database by several names, such as that of a pool, so these do not count.
    """
    settings = connections[using].settings_dict
    root, _ = os.path.splitext(str(settings["TEST"].get("NAME") or TEST_DATABASE_PREFIX))
    is_of_tests = _is_in_memory(using) or str(settings["NAME"]).startswith(root)
    name = tenant()
    return (_place_of(using) if is_of_tests else "") + _apart + (name and f"\0{name}")


def _place_of(using: str) -> str:
    name = str(connections[using].settings_dict["NAME"])
    if _is_in_memory(using):
        return f"{name} {_PROCESS}"
    on_disk = connections[using].vendor == "sqlite" and not name.startswith("file:")
    return os.path.realpath(name) if on_disk else name


def _is_in_memory(using: str) -> bool:
    connection: Any = connections[using]
    return connection.vendor == "sqlite" and bool(connection.is_in_memory_db())


def identity_of(using: str) -> str:
    """What no other database has, not even a restored copy; of SQLite, where its file is."""
    session = Session(using)
    sql = session.dialect.landing
    if not session.dialect.has_server:
        return _place_of(using)
    ((may_ask,),) = session.run(sql.may_ask, (), writes=False)
    ((identity,),) = session.run(sql.whole if may_ask else sql.part, (), writes=False)
    return str(identity)
