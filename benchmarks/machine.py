"""What the figures were measured on."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib import metadata

import django
import psycopg
import redis
from django.conf import settings
from django.db import connection

LINES = (
    "{date}, {system}, {cores} cores, load {load}",
    "Python {python}, Django {django}, psycopg {psycopg}, PostgreSQL {postgresql} over {socket}",
    "redis-py {redis_py}, {redis} over {redis_socket} where a row does not say otherwise",
    "fsync={fsync}, synchronous_commit={synchronous_commit}: {durability}",
)
MYSQL_LINES = (
    LINES[0],
    "Python {python}, Django {django}, mysqlclient {mysqlclient}, {mysql} over {socket}",
    LINES[2],
    "innodb_flush_log_at_trx_commit={flush}, sync_binlog={sync_binlog}, {isolation}",
)
SETTINGS = "SELECT name, setting FROM pg_settings"
MYSQL_SETTINGS = "SELECT VERSION(), @@innodb_flush_log_at_trx_commit, @@sync_binlog"
WAITS = "a commit waits for the disk"
WAITS_NOT = "a commit does not wait for the disk (a server with temporary data)"


def present() -> dict[str, str | int]:
    """This machine, its load in the minute before, and the servers that it is connected to."""
    host = connection.settings_dict["HOST"] or connection.settings_dict["OPTIONS"].get("host", "")
    location = str(settings.CACHES["default"]["LOCATION"])
    hiredis = "with" if redis.utils.HIREDIS_AVAILABLE else "without"
    with redis.Redis.from_url(location) as client:
        told = client.info("server")
    version = f"Redis {told['redis_version']}"
    if "valkey_version" in told:
        version = f"Valkey {told['valkey_version']}"
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "system": f"{platform.system()} {platform.machine()}",
        "cores": len(getattr(os, "sched_getaffinity", lambda _: range(os.cpu_count() or 1))(0)),
        "load": f"{os.getloadavg()[0]:.1f}",
        "python": platform.python_version(),
        "django": django.get_version(),
        "socket": "TCP" if host and not str(host).startswith("/") else "a unix socket",
        **(_of_mysql() if connection.vendor == "mysql" else _of_postgresql()),
        "redis_py": f"{redis.__version__} {hiredis} hiredis",
        "redis": version,
        "redis_socket": "a unix socket" if location.startswith("unix:") else "TCP",
    }


def _of_postgresql() -> dict[str, str]:
    """Its driver and its settings."""
    with connection.cursor() as cursor:
        cursor.execute(SETTINGS)
        setting = {name: value.split(" ")[0] for name, value in cursor.fetchall()}
    return {
        "psycopg": f"{psycopg.__version__} ({psycopg.pq.__impl__})",
        "postgresql": setting["server_version"],
        "fsync": setting["fsync"],
        "synchronous_commit": setting["synchronous_commit"],
    }


def _of_mysql() -> dict[str, str]:
    """The same of MySQL or MariaDB."""
    with connection.cursor() as cursor:
        cursor.execute(MYSQL_SETTINGS)
        version, flush, sync_binlog = cursor.fetchone()
    return {
        "mysqlclient": metadata.version("mysqlclient"),
        "mysql": str(version),
        "flush": str(flush),
        "sync_binlog": str(sync_binlog),
        "isolation": str(getattr(connection, "isolation_level", "")),
    }


def lines(measured: Mapping[str, str | int]) -> list[str]:
    """All of it in four lines."""
    if "mysql" in measured:
        return [line.format_map(measured) for line in MYSQL_LINES]
    waits = "off" not in (measured["fsync"], measured["synchronous_commit"])
    known = {**measured, "durability": WAITS if waits else WAITS_NOT}
    return [line.format_map(known) for line in LINES]
