"""Puts scenes on: a database for each, its processes, and the verdict."""

from __future__ import annotations

import os
import random
import secrets
import subprocess
import sys
import time
from collections import Counter as Sums
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from example_project.bootstrap import children, folders, postgres
from tests.faults.ledgerbook import Loss, Verdict, verdict
from tests.faults.scene import Scene, lines
from tests.faults.servers import Postgres

SEED = "COUNTERS_FAULTS_SEED"
SETTINGS = "tests.faults.settings"
PATIENCE = 120.0
Tell = Callable[[str, object], None]


class Stage:
    """Where scenes are put on.

    Attributes:
        postgres: the server of all of them.
        folder: where a test keeps its servers.
        seconds: for how long a scene goes on.
        chance: what a test draws its faults from.
        tell: keeps something by its name for the end of the run.
    """

    def __init__(self, postgres: Postgres, folder: Path, seconds: float, tell: Tell) -> None:
        self.postgres = postgres
        self.folder = folder
        self.seconds = seconds
        self.seed = int(os.environ.get(SEED) or secrets.randbelow(1_000_000))
        self.chance = random.Random(self.seed)
        self.tell = tell

    @contextmanager
    def playing(self, redis: str, *, cache: str = "default", **options: Any) -> Iterator[Play]:
        """Processes that count and flush, until the block ends; then all is landed."""
        (self.folder / "scene").mkdir()
        scene = Scene(str(self.folder / "scene"), self.seed)
        play = Play(self, replace(scene, **options))
        play.begin({"REDIS_URL": redis, "COUNTERS_FAULTS_CACHE": cache})
        try:
            yield play
            play.end()
            play.drain()
        finally:
            play.stop()
        self.tell("verdict", f"{play.verdict}; {play.faults} moments for a fault")


class Play:
    """One scene that is put on.

    Attributes:
        losses: what Redis itself lost; the test writes it down.
        faults: how many moments there were for a fault.
        verdict: what came of it, when it is over.
    """

    def __init__(self, stage: Stage, scene: Scene) -> None:
        self._stage = stage
        self._scene = scene
        name = f"scene_{secrets.token_hex(4)}"
        settings = {"synchronous_commit": "off"} if scene.careless else {}
        self._url = stage.postgres.database(name, postgres.DATABASE, settings)
        self.losses: list[Loss] = []
        self.faults = 0
        self.verdict = Verdict(scene.seed)

    def begin(self, variables: dict[str, str]) -> None:
        """Start the processes."""
        own = {"DATABASE_URL": self._url, **variables, **self._scene.exported()}
        self._mother = children.start(
            [sys.executable, "-m", "tests.faults.troupe"],
            log=self._scene.path("troupe.log"),
            env={**os.environ, **own},
            cwd=folders.ROOT,
        )
        self._reached("playing")
        self._deadline = time.monotonic() + self._stage.seconds

    def pauses(
        self,
        shortest: float,
        longest: float,
        *,
        least: int = 1,
        until: Callable[[], bool] = lambda: True,
    ) -> Iterator[None]:
        """Moments for a fault, as long as the scene goes on.

        A busy machine gets some time more, until there were as many as ``least``, and all has
        happened that has to.
        """
        while not self._scene.path("errors.log").exists():
            late = time.monotonic() - self._deadline
            if late > PATIENCE or (late > 0 and self.faults >= least and until()):
                return
            time.sleep(self._stage.chance.uniform(shortest, longest))
            self.faults += 1
            yield

    def kills(self) -> Sums[str]:
        """How often flushers have killed themselves so far, by step."""
        return Sums(lines(self._scene.path(".").glob("kills.log")))

    def gone(self) -> int:
        """How much Redis has lost so far."""
        return sum(len(loss.gone) for loss in self.losses)

    def lose(self, gone: frozenset[str], at: float) -> None:
        """Write down what Redis lost, and when."""
        self.losses.append(Loss(at, gone))

    def end(self) -> None:
        """End those who count and those who flush."""
        if not self._scene.path("ended").exists():
            self._scene.path("end").touch()
            self._reached("ended")

    def drain(self) -> None:
        """Land what waits, and compare."""
        self._scene.path("drain").touch()
        self._mother.wait(PATIENCE)
        self.verdict = verdict(self._scene, self._url, self.losses)
        print(self.verdict, self.verdict.errors, sep="\n")

    def stop(self) -> None:
        """End all processes, whatever happened."""
        self._mother.stop()

    def _reached(self, name: str) -> None:
        told = self._scene.path(name).exists
        children.until(lambda: told() or not self._mother.running, PATIENCE)
        log = self._scene.path("troupe.log")
        assert told(), log.read_text(errors="replace")[-3000:]


def ran(url: str, settings: str, *words: str, redis: str = "unix:///nobody") -> str:
    """What a module says that is run to its end, with a database and no Redis, or with one."""
    variables = {"DATABASE_URL": url, "REDIS_URL": redis, "SITE_PREFIX": ""}
    told = subprocess.run(
        [sys.executable, "-m", *words],
        env={**os.environ, **variables, "DJANGO_SETTINGS_MODULE": settings},
        cwd=folders.ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert told.returncode == 0, told.stderr
    return told.stdout
