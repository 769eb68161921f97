"""The regions as the test sees them: their servers, the network between, and their processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import Counter as Tally
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import psycopg

from example_project.bootstrap import children, folders
from tests.faults.regions.strait import Strait
from tests.faults.regions.world import REGIONS, Orders, Said, World, far, said
from tests.faults.scene import lines
from tests.faults.servers import Postgres
from tests.faults.stage import Stage

PATIENCE = 60.0
COPIES = (
    "SELECT key, value, version FROM django_counters_counterregion WHERE region = %s AND value <> 0"
)


class Atlas:
    """Three regions whose processes follow orders.

    Attributes:
        servers: the server of each region.
        straits: how others reach it.
    """

    def __init__(self, stage: Stage, stack: ExitStack) -> None:
        self._stack = stack
        self._stage = stage
        copy = stage.postgres.backup(stage.folder)
        self.servers = {region: Postgres(stack, copy) for region in REGIONS}
        self.straits = {
            region: Strait(server.url, stage.chance) for region, server in self.servers.items()
        }
        for strait in self.straits.values():
            stack.callback(strait.stop)
        ways = {far(region): strait.url for region, strait in self.straits.items()}
        urls = {region: server.url for region, server in self.servers.items()}
        folder = stage.folder / "world"
        (folder / "books").mkdir(parents=True)
        self.world = World(str(folder), stage.seed, {**urls, **ways})
        self._orders = Orders()

    def begin(self) -> None:
        """Start the processes."""
        self.world.order(self._orders)
        self._mother = children.start(
            [sys.executable, "-m", "tests.faults.regions.troupe"],
            log=self.world.path("troupe.log"),
            env=self._environment(),
            cwd=folders.ROOT,
        )
        self._stack.callback(self._mother.stop)

    def order(self, **changes: Any) -> None:
        """Give orders, and wait until they are followed: who has to end has ended."""
        number = self._orders.number + 1
        told = {"peers": self._orders.peers, "counting": self._orders.counting, **changes}
        self._orders = Orders(number, **told)
        self.world.order(self._orders)
        obeyed = self.world.path("obeyed")
        self.until(lambda: obeyed.exists() and obeyed.read_text() == str(number), "obedience")

    def know(self, *groups: str) -> None:
        """Say which regions know each other: ``"eu us"`` those two."""
        peers = {
            region: [other for other in group.split() if other != region]
            for group in groups
            for region in group.split()
        }
        self.order(peers=peers)

    def until(self, condition: Callable[[], bool], what: str) -> None:
        """Wait for something; nothing else may go wrong meanwhile."""
        errors = self.world.path("errors.log")
        children.until(lambda: condition() or errors.exists() or not self._mother.running, PATIENCE)
        log = self.world.path("troupe.log").read_text(errors="replace")[-2000:]
        assert not errors.exists(), errors.read_text()[-3000:]
        told = dict(self.told())
        assert condition(), f"seed {self._stage.seed}: no {what} in {PATIENCE} s; {told}; {log}"

    def told(self) -> Tally[str]:
        """How often exchangers have said what."""
        found: Tally[str] = Tally()
        for line in lines(self.world.path(".").glob("exchange.log")):
            what, _, number = line.rpartition(" ")
            if what.startswith(("published", "pulled")):
                found[what] += int(number)
                found[f"times {what}"] += 1
            else:
                found[line] += 1
        return found

    def said(self, region: str, without: Any = ()) -> Said:
        """What those who count in a region have written down."""
        return said(self.world.books(), region, without)

    def let_count(self, *regions: str, by: int = 60) -> None:
        """Wait until so much more was acknowledged in each region."""
        before = {region: self.said(region).acknowledged.total() for region in regions}
        for region, much in before.items():
            enough = much + by
            self.until(
                lambda region=region, enough=enough: (  # type: ignore[misc]
                    self.said(region).acknowledged.total() >= enough
                ),
                f"counting in {region}",
            )

    def let_exchange(self, *pairs: str, by: int = 5) -> None:
        """Wait until so many times more a region has copied of another one: ``"eu of us"``."""
        before = self.told()
        for pair in pairs:
            what = f"times pulled {pair}"
            enough = before[what] + by
            self.until(
                lambda what=what, enough=enough: self.told()[what] >= enough,  # type: ignore[misc]
                f"exchange, {pair}",
            )

    def copies(self, region: str) -> dict[str, dict[str, tuple[int, int]]]:
        """What each other region has of one: value and version by key."""
        found = {}
        for other in REGIONS:
            if other != region:
                with psycopg.connect(self.servers[other].url) as there:
                    rows = there.execute(COPIES, [region]).fetchall()
                found[other] = {key: (value, version) for key, value, version in rows}
        return found

    def office(self, *words: str) -> Any:
        """Do something by hand; what it says."""
        done = subprocess.run(
            [sys.executable, "-m", "tests.faults.regions.office", *words],
            env=self._environment(),
            cwd=folders.ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"seed {self._stage.seed}: {done.stderr[-3000:]}"
        return json.loads(done.stdout)

    def storm(self, seconds: float) -> None:
        """Cut connections and close ways, each for a while, as long as it takes."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            strait = self.straits[self._stage.chance.choice(REGIONS)]
            if self._stage.chance.random() < 0.5:
                strait.cut()
            else:
                strait.close()
                time.sleep(self._stage.chance.uniform(0.3, 2.0))
                strait.open()
            time.sleep(self._stage.chance.uniform(0.1, 0.5))

    def rough(self, rough: bool) -> None:
        """Let the network delay and cut by chance, or not."""
        for strait in self.straits.values():
            strait.rough = rough

    def did(self) -> Tally[str]:
        """What has happened in the network."""
        return sum((strait.did for strait in self.straits.values()), Tally[str]())

    def kills(self) -> Tally[str]:
        """Who was killed, and at which steps exchangers have killed themselves."""
        return Tally(lines(self.world.path(".").glob("kills.log"))) + Tally(
            {what: n for what, n in self.told().items() if what.startswith("killed")}
        )

    def _environment(self) -> dict[str, str]:
        # The settings of the suite want one; nobody uses it.
        nobody = {"DATABASE_URL": "sqlite://:memory:"}
        return {**os.environ, **nobody, **self.world.exported()}


@contextmanager
def three_regions(stage: Stage) -> Iterator[Atlas]:
    """Regions that are there until the block ends."""
    with ExitStack() as stack:
        yield Atlas(stage, stack)
