"""A killed MariaDB, ended connections, and processes that die: what is told is true."""

from __future__ import annotations

import os
import random
import secrets
import sys
import time
from collections import Counter as Sums
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from example_project.bootstrap import children, folders
from example_project.bootstrap.children import Child
from tests.faults.mariadb import MariaDB, mariadb
from tests.faults.mysql_callers import BOOK, COUNTED, NOT_COUNTED, OVER, SHARED, UNKNOWN
from tests.faults.scene import lines
from tests.faults.servers import APPEND_ONLY, server
from tests.faults.stage import SEED, SETTINGS, Tell, ran

pytestmark = pytest.mark.faults
TRUE = {COUNTED: {1}, UNKNOWN: {0, 1}, NOT_COUNTED: {0}}
CALLERS, ROUNDS, ENDED = 3, 3, 15
PATIENCE = 120.0


def test_what_is_told_is_true(record_property: Tell) -> None:
    seed = int(os.environ.get(SEED) or secrets.randbelow(1_000_000))
    with (
        folders.temporary(None) as run,
        mariadb(run.path) as database,
        server(run.path, *APPEND_ONLY) as redis,
        _crowd(run.path, seed, {"DATABASE_URL": database.url, "REDIS_URL": redis.url}) as crowd,
    ):
        crowd.count(database, random.Random(seed))
        counted = crowd.settled()
        said = dict(line.split("\t")[::-1] for line in lines(run.path.glob("caller*.log")))
    found = Sums((key.split(":")[1], told, counted.get(key, 0)) for key, told in said.items())
    record_property("calls", f"seed {seed}: {dict(sorted(found.items()))}")
    assert [row for row in found if row[2] not in TRUE[row[1]]] == []
    # A batch counts all of its keys or none.
    together = sum(counted.get(key, 0) for key in said if ":many:" in key)
    assert {counted[key] for key in SHARED} == {together}
    ways = {way for way, _, _ in found}
    assert len(ways) == 5
    assert all(found[way, COUNTED, 1] > 10 for way in ways), found
    assert sum(number for (_, told, _), number in found.items() if told != COUNTED) > 0


class _Crowd:
    """Processes that count, and one that rolls up and flushes."""

    def __init__(self, folder: Path, seed: int, variables: dict[str, str]) -> None:
        self._folder, self._seed, self._variables = folder, seed, variables
        self._living: dict[str, Child] = {}
        self._born = 0

    def bear(self, who: str = "") -> None:
        """Start one more."""
        self._born += 1
        name = who or str(self._born)
        command = [sys.executable, "-m", "tests.faults.mysql_callers", str(self._folder), name]
        self._living[name] = children.start(
            [*command, str(self._seed)],
            log=self._folder / f"{name}.{self._born}.out",
            env={**os.environ, **self._variables, "DJANGO_SETTINGS_MODULE": SETTINGS},
            cwd=folders.ROOT,
        )

    def count(self, database: MariaDB, chance: random.Random) -> None:
        """Let them count, while connections, processes and the server are killed."""
        ran(
            self._variables["DATABASE_URL"],
            SETTINGS,
            "django",
            "migrate",
            "--run-syncdb",
            "--skip-checks",
        )
        for who in ("upkeep", *[""] * CALLERS):
            self.bear(who)
        self._wait_for(30)
        for _ in range(ROUNDS):
            for _number in range(ENDED):
                _interrupt(database, chance)
                time.sleep(chance.uniform(0, 0.05))
            for who in ("upkeep", chance.choice([one for one in self._living if one.isdigit()])):
                self._living.pop(who).kill()
                self.bear("upkeep" if who == "upkeep" else "")
            database.kill()
            database.start()
            self._wait_for(30)
        (self._folder / OVER).touch()
        for who, child in self._living.items():
            assert child.wait(PATIENCE) == 0, self._told(who)

    def settled(self) -> dict[str, int]:
        """What each key has counted, when all is landed and rolled up."""
        self.bear("settle")
        assert self._living["settle"].wait(PATIENCE) == 0, self._told("settle")
        rows = (line.split("\t") for line in lines([self._folder / BOOK]))
        return {key: int(value) for value, key in rows}

    def stop(self) -> None:
        """End all that are left."""
        for child in self._living.values():
            child.kill()

    def _wait_for(self, calls: int) -> None:
        """Go on when each of them has made so many more."""
        known = {path: len(lines([path])) for path in self._folder.glob("caller*.log")}

        def moved() -> bool:
            paths = [self._folder / f"caller{who}.log" for who in self._living if who.isdigit()]
            return all(
                path.exists() and len(lines([path])) > known.get(path, 0) + 2 * calls
                for path in paths
            )

        assert children.until(moved, PATIENCE), [self._told(who) for who in self._living]

    def _told(self, who: str) -> str:
        return "".join(
            path.read_text(errors="replace")[-1500:] for path in self._folder.glob(f"{who}.*.out")
        )


@contextmanager
def _crowd(folder: Path, seed: int, variables: dict[str, str]) -> Iterator[_Crowd]:
    with ExitStack() as stack:
        crowd = _Crowd(folder, seed, variables)
        stack.callback(crowd.stop)
        yield crowd


def _interrupt(database: MariaDB, chance: random.Random) -> None:
    """Cancel what somebody does just now, or end his connection."""
    others = database.others()
    if others:
        verb = chance.choice(["CONNECTION", "QUERY"])
        # It may have ended since.
        with suppress(database.driver.Error):
            database.run(f"KILL {verb} {chance.choice(others)}")
