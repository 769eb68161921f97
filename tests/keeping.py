"""Connections that are kept from one transactional test to the next.

Django closes them, so that no test sees what another one has set in its session. Here the server
forgets all of that instead, which takes a tenth of the time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from typing import Any
from weakref import WeakKeyDictionary

from django.db import Error, connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created

_made_with: WeakKeyDictionary[Any, dict[str, Any]] = WeakKeyDictionary()


def _remember(connection: BaseDatabaseWrapper, **_: object) -> None:
    if connection.vendor == "postgresql":
        _made_with[connection.connection] = connection.get_connection_params()


connection_created.connect(_remember)


def _in_a_loop() -> bool:
    """Whether connections belong to a loop, as those of tests in a browser, and end with it."""
    with suppress(RuntimeError):
        asyncio.get_running_loop()
        return True
    return False


def renew(aliases: Iterable[str]) -> None:
    """Make each of these connections of this thread as good as a new one, or close it."""
    for connection in [connections[alias] for alias in aliases]:
        try:
            kept = _renewed(connection)
        except Error:
            kept = False
        if not kept:
            connection.close()


def _renewed(connection: BaseDatabaseWrapper) -> bool:
    if connection.vendor != "postgresql" or _in_a_loop():
        return False
    made_with = _made_with.get(connection.connection) if connection.connection else None
    # A test may have asked for other settings of its connection, and taken them back since.
    if made_with is None or made_with != connection.get_connection_params():
        return False
    if connection.in_atomic_block or not connection.get_autocommit():
        return False
    driver: Any = connection.connection
    # What the driver keeps, the server cannot discard.
    if (driver.isolation_level, driver.read_only, driver.deferrable) != (None, None, None):
        return False
    if driver._notice_handlers or driver._notify_handlers:
        return False
    with connection.cursor() as cursor:
        cursor.execute("DISCARD ALL")
    connection.init_connection_state()
    return True
