"""The memory of a worker that flushes again and again.

The worker is a process that runs ``manage.py counters flush --loop``. Beside it a process with the
same imports and the same connections does nothing.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from io import StringIO
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management import call_command
from django.db import connection
from django.test import override_settings

from benchmarks.cases.cached import location, prefix
from benchmarks.curves import Growth, Line, Progress
from benchmarks.growth.measuring import FEW_ROUNDS, Label, emptied, lines, point
from benchmarks.harness import Effort, expect
from benchmarks.writers import WriterFailed
from django_counters.models import Counter
from django_counters.upkeep.flush import flush

WAIT = 0.001  # seconds between two flushes: as fast as they go
MIB = 1 << 20
# The models of this package can be imported only after Django is set up.
PROGRAM = "import django; django.setup(); from benchmarks.growth import memory; memory.work()"


@dataclass(frozen=True)
class Load:
    """What the worker has to do.

    Attributes:
        flushes: how many it makes.
        every: how many there are from one sample to the next.
        counters: how many there are.
        page: how many of them change before each flush.
    """

    flushes: int
    every: int
    counters: int
    page: int


HOUR = Load(flushes=3600, every=100, counters=5000, page=50)


@dataclass(frozen=True)
class Place:
    """Where a worker finds what it needs: a database, and a part of a Redis."""

    database: dict[str, Any]
    redis: str
    prefix: str

    @classmethod
    def ours(cls) -> Place:
        """The one that this process uses."""
        present = connection.settings_dict
        database = {name: present[name] for name in ("NAME", "USER", "PASSWORD", "HOST", "PORT")}
        return cls(database, location(), prefix())

    def move(self) -> None:
        """Let a process that has just begun use it."""
        connection.settings_dict.update(self.database)
        default = {**settings.CACHES["default"], "LOCATION": self.redis, "KEY_PREFIX": self.prefix}
        override_settings(CACHES={**settings.CACHES, "default": default}).enable()


class _Told(StringIO):
    """The output of the command: passed on, and nothing goes on before it was heard."""

    def write(self, text: str) -> int:
        _tell(text.strip())
        return len(text)


def _tell(text: str) -> None:
    print(text, flush=True)
    sys.stdin.readline()


def work() -> None:
    """What each worker does: connect, then flush until asked to end, or do nothing."""
    place = Place(**json.loads(sys.stdin.readline()))
    flushes = json.loads(sys.stdin.readline())
    place.move()
    flush()
    _tell("ready")
    if flushes:
        call_command("counters", "flush", loop=WAIT, as_json=True, stdout=_Told())


class Worker:
    """A process, as those who look at it see it."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def told(self) -> str:
        """The next line that it says."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise WriterFailed("a worker ended without a word")
        return line.strip()

    def tell(self, what: object) -> None:
        """Say something to it, for which it waits."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{json.dumps(what)}\n")
        self._process.stdin.flush()

    def memory(self) -> float:
        """The MiB of it that are in memory."""
        return resident(self._process.pid) / MIB


def resident(pid: int) -> int:
    """The bytes of a process that are in memory."""
    told = Path(f"/proc/{pid}/statm")
    if told.exists():
        return int(told.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    asked = ["ps", "-o", "rss=", "-p", str(pid)]
    return 1024 * int(subprocess.run(asked, capture_output=True, text=True, check=True).stdout)


@contextmanager
def worker(flushes: bool) -> Iterator[Worker]:
    """Start a process that is connected, and end it."""
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "benchmarks.settings"}
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
        env=environment,
    )
    with process:
        try:
            one = Worker(process)
            one.tell(asdict(Place.ours()))
            one.tell(flushes)
            one.told()  # it is ready
            yield one
        finally:
            process.terminate()


def run(load: Load) -> list[tuple[float, float]]:
    """The MiB of the worker that flushes and of the idle one, before the first flush and later."""
    keys = [f"pages:hour{number}" for number in range(load.counters)]
    before = _total(keys)
    found: list[tuple[float, float]] = []
    with worker(True) as busy, worker(False) as idle:
        for number in range(load.flushes):
            if number % load.every == 0:
                found.append((busy.memory(), idle.memory()))
            at = number * load.page % load.counters
            Counter.objects.increment_many(dict.fromkeys(keys[at : at + load.page], 1))
            busy.tell("go on")
            report = json.loads(busy.told())
            expect("counters of a flush", report["counters"], load.page)
        found.append((busy.memory(), idle.memory()))
    expect("the totals", _total(keys) - before, load.flushes * load.page)
    return found


def _total(keys: Sequence[str]) -> int:
    totals = Counter.objects.in_bulk(keys, field_name="key").values()
    return sum(total.value for total in totals)


def memory(load: Load, effort: Effort, progress: Progress) -> tuple[Line, ...]:
    """Both workers over all flushes.

    Raises:
        WrongSum: the database does not hold what was counted.
        WriterFailed: a worker ended.
    """
    if effort.share < 1:
        load = replace(load, flushes=load.every * max(1, load.flushes // load.every // 3))
    runs: list[list[tuple[float, float]]] = []
    rounds = min(effort.rounds, FEW_ROUNDS)
    for number in range(rounds):
        progress(f"memory: round {number + 1} of {rounds}")
        with emptied():
            runs.append(run(load))
    points = [
        [
            point(sample * load.every, [one[sample][process] for one in runs])
            for sample in range(len(runs[0]))
        ]
        for process in (0, 1)
    ]
    return lines(LABELS, points)


LABELS = (
    Label("counters flush --loop"),
    Label("the same imports and connections, idle", reference=True),
)

GROWTHS: Sequence[Growth] = (
    Growth(
        "memory",
        "Memory of a worker over an hour of flushes, one a second",
        "flushes",
        "MiB resident",
        durable=False,
        measure=partial(memory, HOUR),
        note=(
            "The worker runs the command as it is, but one flush follows the other as fast as "
            f"they go. Before each one {HOUR.page} counters change, in turn of {HOUR.counters:,}. "
            "The first flushes fill what Python, the driver and the clients keep for later; "
            f"what comes after that is what an hour adds. {FEW_ROUNDS} rounds, each with new "
            "processes."
        ),
        logarithmic=False,
    ),
)
