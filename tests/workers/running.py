"""Processes that count or flush beside a test, and what is true when they have ended."""

from __future__ import annotations

import os
import secrets
import signal
import sys
import threading
from collections import Counter as Tally
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from django.db import connection, connections

from django_counters.cached.flush import flush
from django_counters.cached.sources import sources
from django_counters.models import Counter, CounterIncident
from example_project.bootstrap import children
from example_project.bootstrap.children import Child
from tests.redis.counting import eventually

ROOT = Path(__file__).parents[2]
PATIENCE = 60


class Crew:
    """Processes that share the database and the Redis of a test; they end with it.

    Attributes:
        name: what their queue is called.
        folder: where they write.
    """

    def __init__(self, folder: Path, prefix: str, broker: str = "") -> None:
        self.name = f"counters-{secrets.token_hex(4)}"
        self.folder = folder
        self.notes = folder / "notes"
        self.halt = folder / "halt"
        self.notes.touch()
        self._all: list[Child] = []
        self._env = os.environ | {
            "DJANGO_SETTINGS_MODULE": "tests.workers.settings",
            "PYTHONPATH": str(ROOT),
            "WORKERS_DATABASE": str(connection.settings_dict["NAME"]),
            "WORKERS_PREFIX": prefix,
            "WORKERS_QUEUE": self.name,
            "WORKERS_BROKER": broker,
            "WORKERS_NOTES": str(self.notes),
        }

    def buffer(self) -> None:
        """Let increments wait in the processes that are started from now on, until these end."""
        self._env["WORKERS_BUFFER"] = "1"

    def declare_in_app(self) -> None:
        """Let an app keep the namespace with the buffer in processes that are started later."""
        self._env["WORKERS_APP"] = "1"

    def keep(self, strategy: str, root: Path) -> None:
        """Let those that are started from now on count in buffers that have files."""
        self._env |= {"WORKERS_STRATEGY": strategy, "WORKERS_DIRECTORY": str(root)}

    def publish(self, location: str, topic: str) -> None:
        """Let those that are started from now on publish to a topic what is in their buffers."""
        self._env["WORKERS_TOPIC"] = f"{location} {topic}"

    def start(self, *words: object) -> Child:
        """Start a module of Python with its arguments."""
        log = self.folder / f"log{len(self._all)}"
        command = [sys.executable, "-m", *map(str, words)]
        child = children.start(command, log=log, env=self._env, cwd=ROOT)
        self._all.append(child)
        return child

    def worker(self) -> Child:
        """Start a worker with two processes."""
        quiet = ("--without-gossip", "--without-mingle", "--without-heartbeat")
        # A name that no other test uses: RabbitMQ may still hold what one that was killed had.
        name = f"{self.name}-{len(self._all)}@%h"
        return self._celery("worker", "-n", name, "-P", "prefork", "-c", 2, "-l", "WARNING", *quiet)

    def beat(self) -> Child:
        """Start a beat, which keeps its times for itself."""
        return self._celery("beat", "-s", self.folder / f"times{len(self._all)}", "-l", "WARNING")

    def _celery(self, *words: object) -> Child:
        return self.start("celery", "-A", "tests.workers.queue", *words)

    def noted(self, kind: str) -> list[str]:
        """What was written down, without its first word."""
        lines = self.notes.read_text().splitlines()
        return [line.partition(" ")[2] for line in lines if line.startswith(f"{kind} ")]

    def stop(self) -> None:
        """Ask all to end, and end what is left of them."""
        self.halt.unlink(missing_ok=True)
        for child in self._all:
            with suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGCONT)
            child.ask()
        for child in self._all:
            child.stop(grace=20)
            with suppress(ProcessLookupError):
                # Each has a group of its own; of one that was killed there may be children.
                os.killpg(child.pid, signal.SIGKILL)

    def told(self) -> str:
        """The ends of all logs."""
        logs = sorted(self.folder.glob("log*"))
        return "\n".join(f"{log.name}:\n{log.read_text()[-3000:]}" for log in logs)


@contextmanager
def counting(keys: int = 8, threads: int = 2) -> Iterator[Mapping[str, int]]:
    """Count in threads meanwhile; how often each key was acknowledged, when they have ended."""
    over = threading.Event()
    acknowledged: Tally[str] = Tally()
    lock = threading.Lock()

    def work(number: int) -> None:
        mine: Tally[str] = Tally()
        turn = number
        while not over.is_set():
            key = f"views:{turn % keys}"
            Counter.objects.increment(key)
            mine[key] += 1
            turn += threads
            # Others want to be heard as well.
            over.wait(0.002)
        with lock:
            acknowledged.update(mine)
        connections.close_all()

    crowd = [threading.Thread(target=work, args=(number,)) for number in range(threads)]
    for one in crowd:
        one.start()
    try:
        yield acknowledged
    finally:
        over.set()
        for one in crowd:
            one.join(PATIENCE)


def landed() -> dict[str, int]:
    """What is in the database."""
    return dict(Counter.objects.values_list("key", "value"))


def waits() -> int:
    """How much waits in Redis."""
    (pending,) = sources("default")
    return sum(slot.open + slot.sealed for slot in pending.waiting())


def is_drained() -> bool:
    """Flush what is there; whether there is nothing left."""
    flush()
    return waits() == 0


def check(acknowledged: Mapping[str, int]) -> None:
    """All that was acknowledged is in the database, once, and nothing was lost on the way."""
    assert eventually(is_drained, PATIENCE)
    found = {key: value for key, value in landed().items() if key in acknowledged}
    assert found == dict(acknowledged)
    assert not CounterIncident.objects.exists()
