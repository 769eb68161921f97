"""The API while its servers are lost: 503 says "not counted", 504 "unknown", and nothing else."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import psycopg
import pytest

pytest.importorskip("gunicorn", reason="gunicorn is not installed")

from example_project.bootstrap import postgres
from tests.faults.cells import cells_of, wrong_cells
from tests.faults.lossy import lossy
from tests.faults.servers import APPEND_ONLY, Postgres, server
from tests.faults.stage import PATIENCE, Stage, ran
from tests.faults.visitors import RECORDS, REFUSED, UNKNOWN, Visitors
from tests.rest.site import serving

pytestmark = pytest.mark.faults
# What each scene has to come to, with keys and without, or it has shown nothing.
LEAST = 100
# Seconds that Redis may take to answer; a network that loses answers takes all of it.
TIMEOUT = "0.5"
# The database that each site has a copy of.
SITE = "site"
# Of what is counted by hour and day, which the counters of the package itself are not.
VALUES = (
    "SELECT key, value FROM django_counters_counter WHERE value <> 0 AND key NOT LIKE 'counters.%'"
)
# Nobody is at work any more, so nobody needs to be waited for. Zero would say that nobody was.
PASS_LEASES = (
    "UPDATE django_counters_countertoken"
    " SET result = jsonb_set(result::jsonb, '{until}', '1')::text"
    " WHERE (result::jsonb ->> 'until')::float > 0"
)


class Show:
    """A site on servers that are lost, and its visitors."""

    def __init__(self, stage: Stage, url: str, redis: str, visitors: Visitors) -> None:
        self._stage = stage
        self._url = url
        self._redis = redis
        self.visitors = visitors
        self.faults = 0

    def moments(self, shortest: float, longest: float, least: int) -> Iterator[None]:
        """Moments for a fault, as long as visitors come; longer where the machine is busy."""
        with self.visitors.coming():
            deadline = time.monotonic() + self._stage.seconds
            while self.faults < least or self._goes_on(time.monotonic() - deadline):
                time.sleep(self._stage.chance.uniform(shortest, longest))
                self.faults += 1
                yield
            time.sleep(longest)

    def _goes_on(self, late: float) -> bool:
        return late < 0 or (late < PATIENCE and self.visitors.counted() <= LEAST)

    def land(self) -> None:
        """Flush and fold until nothing waits."""
        ran(self._url, "tests.rest.server_settings", "tests.faults.cells", redis=self._redis)

    def end(self) -> None:
        """Send again what is unknown, where that is safe."""
        # A slot of Redis that has seen too many restarts counts nothing more before a flush.
        self.land()
        before = f"{self.visitors.number(UNKNOWN)} unknown, {self.visitors.number(REFUSED)} refused"
        with psycopg.connect(self._url, autocommit=True) as database:
            self.visitors.settle(self._stage.chance, partial(database.execute, PASS_LEASES))
        told = ", ".join(f"{n} x {answer}" for answer, n in sorted(self.visitors.told.items()))
        after = f"{self.visitors.number(UNKNOWN)} unknown in the end"
        says = f"seed {self._stage.seed}: {told}; {before}, {after}; {self.faults} faults"
        self._stage.tell("visitors", says)
        print(says)

    def assert_cells(self) -> None:
        """When all has landed, the cells are what is counted."""
        self.land()
        with psycopg.connect(self._url) as database:
            values: dict[str, int] = dict(database.execute(VALUES).fetchall())
        assert len(values) > LEAST // 10
        assert wrong_cells(cells_of(self._url), values, dict.fromkeys(values, "")) == []

    def assert_kept(self) -> None:
        """Whatever was promised holds."""
        assert not self.visitors.odd, self.visitors.odd[:3]
        assert self.visitors.problems() == []
        assert self.visitors.counted() > LEAST
        for visit, told in self.visitors.outcomes.items():
            assert told != UNKNOWN or not visit.key or visit.kind == "scans", visit


@contextmanager
def shown(stage: Stage, who: str, redis: str, direct: str = "") -> Iterator[Show]:
    """A site with visitors on a database of its own; ``direct``: the Redis behind a network."""
    url = stage.postgres.database(f"site_{secrets.token_hex(4)}", SITE, {})
    (stage.folder / "site").mkdir()
    variables = {"DATABASE_URL": url, "REDIS_URL": redis, "SITE_TIMEOUT": TIMEOUT}
    with serving(stage.folder / "site", **variables) as site:
        show = Show(stage, url, direct or redis, Visitors(site, who))
        yield show
        show.end()
        print(site.log())
        show.assert_kept()
        show.assert_cells()


@pytest.fixture(scope="session")
def who(postgres_server: Postgres) -> str:
    """The JWT of a user of the database that each site has a copy of, with its records."""
    url = postgres_server.database(SITE, postgres.DATABASE, {})
    told = ran(url, "tests.rest.server_settings", "tests.rest.prepare", str(RECORDS))
    return str(json.loads(told)["who"])


def test_postgresql_is_stopped_immediately(stage: Stage, who: str) -> None:
    with server(stage.folder, *APPEND_ONLY) as redis, shown(stage, who, redis.url) as show:
        for _ in show.moments(0.3, 0.9, least=4):
            stage.postgres.stop_immediately()
            stage.postgres.start()
    assert show.visitors.told["503 unavailable"] > 0


def test_redis_is_killed(stage: Stage, who: str) -> None:
    with server(stage.folder, *APPEND_ONLY) as redis, shown(stage, who, redis.url) as show:
        for _ in show.moments(0.3, 0.9, least=4):
            redis.let_sync()
            redis.kill()
            redis.start()
            redis.open()
    assert show.visitors.told["503 unavailable"] > 0


def test_answers_of_redis_are_lost(stage: Stage, who: str) -> None:
    with (
        server(stage.folder, *APPEND_ONLY) as redis,
        lossy(redis.url, stage.chance) as network,
        shown(stage, who, network.url, redis.url) as show,
    ):
        for _ in show.moments(0.3, 0.6, least=5):
            network.cut()
    assert show.visitors.told["504 outcome-unknown"] > 0
