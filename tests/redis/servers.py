"""Servers of Redis beside the one of this run: a cluster, or servers that Sentinels watch."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import redis

from example_project.bootstrap.postgres import free_port
from tests.redis.counting import eventually

PROGRAM = shutil.which("redis-server")
needs_redis = pytest.mark.skipif(PROGRAM is None, reason="there is no redis-server on the PATH")


ATTEMPTS = 5


class Server:
    """One redis-server. An argument that can be called is, each time it is started."""

    def __init__(self, folder: Path, *arguments: object) -> None:
        folder.mkdir(parents=True)
        self._folder = folder
        # Somebody else may take a port that was free.
        for _ in range(ATTEMPTS):
            self._start(folder, [one() if callable(one) else one for one in arguments])
            if eventually(self._is_decided) and self.process.poll() is None:
                return
            self.stop()
        raise AssertionError((folder / "log").read_text())

    def _start(self, folder: Path, arguments: list[object]) -> None:
        self.port = free_port()
        words = [PROGRAM, *arguments, "--port", self.port, "--bind", "127.0.0.1", "--dir", folder]
        with (folder / "log").open("w") as log:
            self.process = subprocess.Popen(list(map(str, words)), stdout=log, cwd=folder)
        self.direct: Any = redis.Redis("127.0.0.1", self.port, decode_responses=True, protocol=2)

    def _is_decided(self) -> bool:
        return self.process.poll() is not None or self.answers()

    def answers(self) -> bool:
        """Whether it takes commands."""
        with suppress(redis.ConnectionError):
            return bool(self.direct.ping())
        return False

    def __call__(self, *words: Any) -> Any:
        """Tell it something, straight."""
        return self.direct.execute_command(*words)

    def restart(self, *arguments: object) -> None:
        """Kill it, and start it with what it has saved; on another port."""
        self.stop()
        self._start(self._folder, list(arguments))
        assert eventually(self.answers)

    def stop(self) -> None:
        """End it at once."""
        self.direct.close()
        self.process.kill()
        self.process.wait(30)


@contextmanager
def running(folder: Path, *settings: tuple[object, ...]) -> Iterator[list[Server]]:
    """Servers, one for each tuple of arguments."""
    with ExitStack() as stack:
        servers = []
        for number, arguments in enumerate(settings):
            servers.append(Server(folder / str(number), *arguments))
            stack.callback(servers[-1].stop)
        yield servers


def joined(servers: list[Server], slots: int = 16384) -> None:
    """Make a cluster of servers, each with as many slots."""
    bounds = [round(slots * part / len(servers)) for part in range(len(servers) + 1)]
    for number, each in enumerate(servers):
        each("CLUSTER", "ADDSLOTSRANGE", bounds[number], bounds[number + 1] - 1)
        each("CLUSTER", "SET-CONFIG-EPOCH", number + 1)
    for other in servers[1:]:
        _, bus = other("CONFIG", "GET", "cluster-port")
        servers[0]("CLUSTER", "MEET", "127.0.0.1", other.port, bus)
    assert eventually(lambda: all(is_whole(each, len(servers)) for each in servers), 60)


def is_whole(server: Server, servers: int) -> bool:
    """Whether it knows all others and all slots."""
    told = dict(line.split(":") for line in server("CLUSTER", "INFO").split())
    return (told["cluster_state"], told["cluster_known_nodes"], told["cluster_slots_ok"]) == (
        "ok",
        str(servers),
        "16384",
    )
