"""What the figures were measured on."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from datetime import UTC, datetime

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
SETTINGS = "SELECT name, setting FROM pg_settings"
WAITS = "a commit waits for the disk"
WAITS_NOT = "a commit does not wait for the disk (a server with temporary data)"


def present() -> dict[str, str | int]:
    """This machine, its load in the minute before, and the servers that it is connected to."""
    host = connection.settings_dict["HOST"] or connection.settings_dict["OPTIONS"].get("host", "")
    location = str(settings.CACHES["default"]["LOCATION"])
    hiredis = "with" if redis.utils.HIREDIS_AVAILABLE else "without"
    with redis.Redis.from_url(location) as client:
        told = client.info("server")
    with connection.cursor() as cursor:
        cursor.execute(SETTINGS)
        setting = {name: value.split(" ")[0] for name, value in cursor.fetchall()}
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
        "psycopg": f"{psycopg.__version__} ({psycopg.pq.__impl__})",
        "postgresql": setting["server_version"],
        "socket": "TCP" if host and not str(host).startswith("/") else "a unix socket",
        "fsync": setting["fsync"],
        "synchronous_commit": setting["synchronous_commit"],
        "redis_py": f"{redis.__version__} {hiredis} hiredis",
        "redis": version,
        "redis_socket": "a unix socket" if location.startswith("unix:") else "TCP",
    }


def lines(measured: Mapping[str, str | int]) -> list[str]:
    """All of it in four lines."""
    waits = "off" not in (measured["fsync"], measured["synchronous_commit"])
    known = {**measured, "durability": WAITS if waits else WAITS_NOT}
    return [line.format_map(known) for line in LINES]
