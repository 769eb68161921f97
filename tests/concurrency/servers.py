"""More connections than one in a thread, and more servers than one in a test."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import dj_database_url
import psycopg
import pytest
from django.db import connections

from example_project.bootstrap import binaries, folders, postgres
from example_project.bootstrap.binaries import Program

# A thread that has several connections would wait for itself for ever.
IMPATIENT = {
    "postgresql": {"options": "-c lock_timeout=2s"},
    "mysql": {"init_command": "SET SESSION innodb_lock_wait_timeout = 2"},
}
_LOCKED = {
    "postgresql": (
        "SELECT pid FROM pg_stat_activity "
        "WHERE wait_event_type = 'Lock' AND datname = current_database()"
    ),
    "mysql": (
        "SELECT t.trx_mysql_thread_id FROM information_schema.INNODB_TRX t "
        "JOIN information_schema.PROCESSLIST p ON p.ID = t.trx_mysql_thread_id "
        "WHERE t.trx_state = 'LOCK WAIT' AND p.DB = DATABASE()"
    ),
}


@contextmanager
def connected(*aliases: str, **changes: object) -> Iterator[None]:
    """Further connections to the database of the test, with other settings if need be.

    They belong to one thread, so that what happens in several transactions stands in one order. One
    that has to wait for another one fails after two seconds.
    """
    for alias in aliases:
        made = connections["default"].copy(alias)
        made.settings_dict.update(changes)
        known = made.settings_dict["OPTIONS"]
        made.settings_dict["OPTIONS"] = {**known, **IMPATIENT[made.vendor]}
        connections[alias] = made
    try:
        yield
    finally:
        for alias in aliases:
            connections[alias].close()
            del connections[alias]


def execute(sql: str, *params: Any, using: str = "default") -> list[tuple[Any, ...]]:
    """Execute one statement, and return its rows."""
    with connections[using].cursor() as cursor:
        cursor.execute(sql, params or None)
        return cursor.fetchall() if cursor.description else []


def waiting() -> int:
    """How many connections to the database wait for a lock."""
    return len(waiters())


def waiters() -> list[int]:
    """The numbers of the connections to the database that wait for a lock."""
    vendor = connections["default"].vendor
    if vendor == "mysql":
        # It looks again only if nobody has asked for a tenth of a second.
        time.sleep(0.15)
    else:
        # Within a transaction the view is a snapshot, unless it is thrown away.
        execute("SELECT pg_stat_clear_snapshot()")
    return [int(number) for (number,) in execute(_LOCKED[vendor])]


def hurry(milliseconds: int, using: str = "default") -> None:
    """Let a connection wait for a lock no longer. MySQL waits a second at least."""
    seconds = max(1, milliseconds // 1000)
    on_mysql = connections[using].vendor == "mysql"
    execute(
        f"SET SESSION innodb_lock_wait_timeout = {seconds}"
        if on_mysql
        else f"SET lock_timeout = '{milliseconds}ms'",
        using=using,
    )


def be_patient(using: str = "default") -> None:
    """Let it wait as long as others do."""
    on_mysql = connections[using].vendor == "mysql"
    execute(
        "SET SESSION innodb_lock_wait_timeout = DEFAULT" if on_mysql else "RESET lock_timeout",
        using=using,
    )


def backend(using: str = "default") -> int:
    """The number of a connection at its server."""
    on_mysql = connections[using].vendor == "mysql"
    ((number,),) = execute(
        f"SELECT {'CONNECTION_ID' if on_mysql else 'pg_backend_pid'}()", using=using
    )
    return int(number)


def end(number: int) -> None:
    """End the server's side of another connection; it is over when this returns."""
    if connections["default"].vendor != "mysql":
        assert execute("SELECT pg_terminate_backend(%s, 30000)", number) == [(True,)]
        return
    execute(f"KILL CONNECTION {number:d}")
    deadline = time.monotonic() + 30
    while is_there(number):
        assert time.monotonic() < deadline, "it does not end"
        time.sleep(0.01)


def is_there(number: int) -> bool:
    """Whether a connection is still there, for its server."""
    on_mysql = connections["default"].vendor == "mysql"
    return bool(
        execute(
            "SELECT 1 FROM information_schema.PROCESSLIST WHERE ID = %s"
            if on_mysql
            else "SELECT 1 FROM pg_stat_activity WHERE pid = %s",
            number,
        )
    )


def others() -> int:
    """How many other connections the database has."""
    on_mysql = connections["default"].vendor == "mysql"
    ((number,),) = execute(
        "SELECT COUNT(*) FROM information_schema.PROCESSLIST "
        "WHERE DB = DATABASE() AND ID <> CONNECTION_ID()"
        if on_mysql
        else "SELECT COUNT(*) FROM pg_stat_activity "
        "WHERE datname = current_database() AND pid <> pg_backend_pid()"
        # Autovacuum comes and goes.
        " AND backend_type = 'client backend'"
    )
    return int(number)


def program() -> Program:
    """The PostgreSQL that a test can start, like that of the test if there is such a one.

    It is not older than that, or the test is skipped.
    """
    major = cast("Any", connections["default"]).pg_version // 10_000
    found = [program for program in _programs() if program.major >= major]
    if not found:
        pytest.skip(f"there is no PostgreSQL {major} here that a second server can be started with")
    return min(found, key=lambda program: program.major)


def _programs() -> Iterator[Program]:
    for source in binaries.sources():
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("DJC_SERVICES", source)
            found = binaries.find_postgres()
        if found:
            yield found


@contextmanager
def server(**options: str) -> Iterator[Mapping[str, Any]]:
    """A PostgreSQL of the test's own; the settings of its database."""
    with folders.temporary(postgres.account()) as home:
        if options:
            # Some take effect with a start only.
            with _running(home.path) as url:
                _set(url, {**options, "fsync": "off"})
        with _running(home.path if options else None) as url:
            yield dict(dj_database_url.parse(url))


@contextmanager
def _running(keep: Path | None) -> Iterator[str]:
    who = postgres.account()
    with (
        folders.temporary(who) as run,
        postgres.running(program(), run, keep, who) as url,
    ):
        yield url


def _set(url: str, options: Mapping[str, str]) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        for name, value in options.items():
            connection.execute(f"ALTER SYSTEM SET {name} = '{value}'".encode())
