"""Fixtures of the tests with faults."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from example_project.bootstrap import folders
from tests.faults.servers import Postgres
from tests.faults.stage import SETTINGS, Stage, Tell, ran

SHORT = 5.0
# The hour is for all scenes together.
SCENES = 9


def seconds(chosen: str | None) -> float:
    """How long one scene is."""
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    return 3600 * min(workers, SCENES) / SCENES if chosen == "long" else SHORT


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[Postgres]:
    """A PostgreSQL with the tables in its database."""
    with ExitStack() as stack:
        server = Postgres(stack)
        # Others are copies of its database.
        ran(server.url, SETTINGS, "django", "migrate", "-v", "0")
        yield server


@pytest.fixture
def stage(
    postgres_server: Postgres,
    request: pytest.FixtureRequest,
    record_property: Tell,
) -> Iterator[Stage]:
    """Where a test puts its scene on."""
    length = seconds(request.config.getoption("--faults"))
    with folders.temporary(None) as run:
        yield Stage(postgres_server, run.path, length, record_property)
