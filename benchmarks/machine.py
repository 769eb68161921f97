"""What the figures were measured on."""

from __future__ import annotations

import os
import platform
from dataclasses import asdict, dataclass
from datetime import UTC, datetime

import django
import psycopg
import redis
from django.conf import settings
from django.db import connection


@dataclass(frozen=True)
class Machine:
    """Versions, cores, and the settings of the server that decide what a commit costs.

    ``load``: of the minute before the measuring began, on the whole machine.
    """

    date: str
    system: str
    cores: int
    load: str
    python: str
    django: str
    psycopg: str
    postgresql: str
    socket: str
    fsync: str
    synchronous_commit: str
    redis_py: str
    redis: str
    redis_socket: str

    @property
    def durability(self) -> str:
        """What a commit waits for, in words."""
        if self.fsync == "off" or self.synchronous_commit == "off":
            return "a commit does not wait for the disk (a server with temporary data)"
        return "a commit waits for the disk"

    def lines(self) -> list[str]:
        """All of it in four lines."""
        return [
            f"{self.date}, {self.system}, {self.cores} cores, load {self.load}",
            f"Python {self.python}, Django {self.django}, psycopg {self.psycopg}, "
            f"PostgreSQL {self.postgresql} over {self.socket}",
            f"redis-py {self.redis_py}, {self.redis} over {self.redis_socket} where a row does not "
            "say otherwise",
            f"fsync={self.fsync}, synchronous_commit={self.synchronous_commit}: {self.durability}",
        ]

    def fields(self) -> dict[str, str | int]:
        """All of it for JSON."""
        return {**asdict(self), "durability": self.durability}


def present() -> Machine:
    """This machine and the server that the connection leads to."""
    host = connection.settings_dict["HOST"] or connection.settings_dict["OPTIONS"].get("host", "")
    return Machine(
        date=datetime.now(UTC).date().isoformat(),
        system=f"{platform.system()} {platform.machine()}",
        cores=_cores(),
        load=f"{os.getloadavg()[0]:.1f}",
        python=platform.python_version(),
        django=django.get_version(),
        psycopg=f"{psycopg.__version__} ({psycopg.pq.__impl__})",
        postgresql=_setting("server_version"),
        socket="TCP" if host and not str(host).startswith("/") else "a unix socket",
        fsync=_setting("fsync"),
        synchronous_commit=_setting("synchronous_commit"),
        redis_py=f"{redis.__version__} {'with' if redis.utils.HIREDIS_AVAILABLE else 'without'} "
        "hiredis",
        redis=_redis(),
        redis_socket="a unix socket" if _location().startswith("unix:") else "TCP",
    )


def _location() -> str:
    return str(settings.CACHES["default"]["LOCATION"])


def _redis() -> str:
    """The server's own name and version."""
    with redis.Redis.from_url(_location()) as client:
        told = client.info("server")
    if "valkey_version" in told:
        return f"Valkey {told['valkey_version']}"
    return f"Redis {told['redis_version']}"


def _cores() -> int:
    """The cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _setting(name: str) -> str:
    with connection.cursor() as cursor:
        cursor.execute("SELECT current_setting(%s)", [name])
        return str(cursor.fetchone()[0]).split(" ")[0]
