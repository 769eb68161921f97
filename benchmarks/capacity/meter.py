"""What was spent so far: processor time of three programs, and bytes that two of them wrote."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.db import connection

PROCESSES = Path("/proc")
WRITTEN = "SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint"
NANO = 1e-9


@dataclass(frozen=True)
class Reading:
    """Where the clocks of the servers stand; ``database``: that of each process of the server."""

    database: Mapping[int, float]
    redis: float
    wal: int
    log: int


@dataclass(frozen=True)
class Spent:
    """What one thing took: seconds of processors, bytes, and seconds on the wall."""

    operations: int
    client: float
    database: float | None
    redis: float
    wal: float
    log: float | None
    seconds: float


class Meter:
    """Reads the clocks of this process, of the database and of a Redis.

    Those of a database are read from ``/proc``: on Linux, and if it runs on this machine. Processes
    that come or go meanwhile are not counted, and so the workers of autovacuum never are.
    """

    def __init__(self, redis: Any) -> None:
        self._redis = redis
        self._server = postmaster()
        self._logs = bool(redis.info("persistence")["aof_enabled"])

    def around(self, action: Callable[[], int]) -> Spent:
        """Do something that returns how many operations it was."""
        before = self._read()
        # Next to the action: to read the other clocks takes time of this process.
        client, seconds = time.process_time(), time.perf_counter()
        operations = action()
        client, seconds = time.process_time() - client, time.perf_counter() - seconds
        after = self._read()
        stayed = after.database.keys() & before.database.keys()
        worked = sum(after.database[pid] - before.database[pid] for pid in stayed)
        return Spent(
            operations,
            client,
            worked if stayed else None,
            after.redis - before.redis,
            after.wal - before.wal,
            after.log - before.log if self._logs else None,
            seconds,
        )

    def _read(self) -> Reading:
        used = self._redis.info("cpu")
        with connection.cursor() as cursor:
            cursor.execute(WRITTEN)
            wal = cursor.fetchone()[0]
        return Reading(
            children(self._server) if self._server else {},
            used["used_cpu_user"] + used["used_cpu_sys"],
            wal,
            self._redis.info("persistence").get("aof_current_size", 0),
        )


def postmaster() -> int | None:
    """The number of the process whose children serve the connection, where it can be seen."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        backend = cursor.fetchone()[0]
    # On another machine the number may be anybody's here.
    name = _text(PROCESSES / str(backend) / "comm")
    return _parent(backend) if name and name.startswith("postgres") else None


def children(parent: int) -> dict[int, float]:
    """Seconds of a processor that each process has used that this one has started."""
    found = {}
    for folder in PROCESSES.iterdir():
        if folder.name.isdigit() and _parent(int(folder.name)) == parent:
            used = _text(folder / "schedstat")
            if used:
                found[int(folder.name)] = int(used.split()[0]) * NANO
    return found


def _parent(process: int) -> int | None:
    told = _text(PROCESSES / str(process) / "stat")
    # The name stands in brackets and may have spaces in it.
    return int(told.rpartition(")")[2].split()[1]) if told else None


def _text(path: Path) -> str | None:
    """What a file of ``/proc`` says; None where its process has ended, or there is none."""
    with suppress(OSError):
        return path.read_text()
    return None
