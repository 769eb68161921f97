"""What was spent so far: processor time of three programs, and bytes that two of them wrote."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.inspection import execute

PROCESSES = Path("/proc")
WRITTEN = "SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint"
NANO = 1e-9


class Spent(NamedTuple):
    """What one operation took: seconds of processors, bytes, and seconds on the wall, if known."""

    operations: int
    each: Mapping[str, float | None]


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
        (then, before), client, seconds = self._read(), time.process_time(), time.perf_counter()
        operations = action()
        # Next to the action: to read the other clocks takes time of this process.
        client, seconds = time.process_time() - client, time.perf_counter() - seconds
        now, after = self._read()
        stayed = now.keys() & then.keys()
        spent = {name: after[name] - before[name] for name in after}
        spent |= {"client": client, "seconds": seconds}
        if stayed:
            spent["database"] = sum(now[pid] - then[pid] for pid in stayed)
        each = {name: number / operations for name, number in spent.items()}
        return Spent(operations, {"database": None, "log": None, **each})

    def _read(self) -> tuple[dict[int, float], dict[str, float]]:
        """Where the clocks of each process of the database stand, and those of Redis."""
        used = self._redis.info("cpu")
        clocks = {
            "redis": used["used_cpu_user"] + used["used_cpu_sys"],
            "wal": execute(WRITTEN),
        }
        if self._logs:
            clocks["log"] = self._redis.info("persistence")["aof_current_size"]
        return children(self._server) if self._server else {}, clocks


def postmaster() -> int | None:
    """The number of the process whose children serve the connection, where it can be seen."""
    backend = execute("SELECT pg_backend_pid()")
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
