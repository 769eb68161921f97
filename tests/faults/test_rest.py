"""The API while its servers are lost: 503 says "not counted", 504 "unknown", and nothing else."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import psycopg
import pytest

pytest.importorskip("gunicorn", reason="gunicorn is not installed")

from example_project.bootstrap import folders, postgres
from tests.faults.lossy import lossy
from tests.faults.servers import APPEND_ONLY, server
from tests.faults.stage import Stage
from tests.faults.visitors import COUNTED, RECORDS, REFUSED, UNKNOWN, Visitors
from tests.rest.site import serving

pytestmark = [pytest.mark.faults, pytest.mark.parametrize("keyed", [True, False])]
# What each scene has to come to, or it has shown nothing.
LEAST = 100
# Seconds that Redis may take to answer; a network that loses answers takes all of it.
TIMEOUT = "0.5"
# Nobody is at work any more, so nobody needs to be waited for. Zero would say that nobody was.
PASS_LEASES = (
    "UPDATE django_counters_countertoken"
    " SET result = jsonb_set(result::jsonb, '{until}', '1')::text"
    " WHERE (result::jsonb ->> 'until')::float > 0"
)


class Show:
    """A site on servers that are lost, and its visitors."""

    def __init__(self, stage: Stage, url: str, visitors: Visitors) -> None:
        self._stage = stage
        self._url = url
        self.visitors = visitors
        self.faults = 0

    def moments(self, shortest: float, longest: float, least: int) -> Iterator[None]:
        """Moments for a fault, as long as visitors come."""
        with self.visitors.coming():
            deadline = time.monotonic() + self._stage.seconds
            while time.monotonic() < deadline or self.faults < least:
                time.sleep(self._stage.chance.uniform(shortest, longest))
                self.faults += 1
                yield
            time.sleep(longest)

    def end(self) -> None:
        """Send again what is unknown, where that is safe; then compare."""
        before = f"{self.visitors.number(UNKNOWN)} unknown, {self.visitors.number(REFUSED)} refused"
        if self.visitors.keyed:
            with psycopg.connect(self._url, autocommit=True) as database:
                pass_leases = partial(database.execute, PASS_LEASES)
                self.visitors.settle(self._stage.chance, pass_leases)
        told = ", ".join(f"{n} x {answer}" for answer, n in sorted(self.visitors.told.items()))
        after = f"{self.visitors.number(UNKNOWN)} unknown in the end"
        says = f"seed {self._stage.seed}: {told}; {before}, {after}; {self.faults} faults"
        self._stage.tell("visitors", says)
        print(says)

    def assert_kept(self) -> None:
        """Whatever was promised holds."""
        assert not self.visitors.odd, self.visitors.odd[:3]
        assert self.visitors.problems() == []
        assert self.visitors.number(COUNTED) > LEAST
        if self.visitors.keyed:
            unknown = {v.kind for v, told in self.visitors.outcomes.items() if told == UNKNOWN}
            assert unknown <= {"scans"}


@contextmanager
def shown(stage: Stage, redis: str, *, keyed: bool) -> Iterator[Show]:
    """A site with visitors on a database of its own."""
    url = stage.postgres.database(f"site_{secrets.token_hex(4)}", postgres.DATABASE, {})
    variables = {"DATABASE_URL": url, "REDIS_URL": redis, "SITE_TIMEOUT": TIMEOUT}
    who = prepared(variables, stage.folder)
    (stage.folder / "site").mkdir()
    with serving(stage.folder / "site", **variables) as site:
        show = Show(stage, url, Visitors(site, who, keyed))
        yield show
        show.end()
        print(site.log())
        show.assert_kept()


def prepared(variables: Mapping[str, str], folder: Path) -> str:
    """The JWT of a user of a new database, in which there are records."""
    own = {
        "DJANGO_SETTINGS_MODULE": "tests.rest.server_settings",
        "SITE_FOLDER": str(folder),
        "SITE_PREFIX": "",
        **variables,
    }
    told = subprocess.run(
        [sys.executable, "-m", "tests.rest.prepare", str(RECORDS)],
        env={**os.environ, **own},
        cwd=folders.ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert told.returncode == 0, told.stderr
    return str(json.loads(told.stdout)["who"])


def test_postgresql_is_stopped_immediately(stage: Stage, keyed: bool) -> None:
    with (
        server(stage.folder, *APPEND_ONLY) as redis,
        shown(stage, redis.url, keyed=keyed) as show,
    ):
        for _ in show.moments(0.5, 1.5, least=3):
            stage.postgres.stop_immediately()
            stage.postgres.start()
    assert show.visitors.told["503 unavailable"] > 0


def test_redis_is_killed(stage: Stage, keyed: bool) -> None:
    with (
        server(stage.folder, *APPEND_ONLY) as redis,
        shown(stage, redis.url, keyed=keyed) as show,
    ):
        for _ in show.moments(0.5, 1.5, least=3):
            redis.let_sync()
            redis.kill()
            redis.start()
            redis.open()
    assert show.visitors.told["503 unavailable"] > 0


def test_answers_of_redis_are_lost(stage: Stage, keyed: bool) -> None:
    with (
        server(stage.folder, *APPEND_ONLY) as redis,
        lossy(redis.url, stage.chance) as network,
        shown(stage, network.url, keyed=keyed) as show,
    ):
        for _ in show.moments(0.5, 1.0, least=3):
            network.cut()
    assert show.visitors.told["504 outcome-unknown"] > 0
