"""A Redis and the tables that the cases need."""

from __future__ import annotations

from collections.abc import Iterator
from multiprocessing.forkserver import ensure_running

import pytest
from django.db import connection

from benchmarks import database
from benchmarks.models import NaiveCounter, Post
from example_project.bootstrap.services import services
from tests.concurrency.crowd import FORKS, PRELOADED


@pytest.fixture(scope="module")
def forks() -> None:
    """Start the server of processes, whose environment those of all later tests have."""
    FORKS.set_forkserver_preload(PRELOADED)
    ensure_running()


@pytest.fixture(scope="module")
def server(forks: None) -> Iterator[str]:
    """A Redis of these tests alone: one of the cases opens a port of it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("REDIS_URL", raising=False)
        with services(want=("valkey",), quiet=True) as urls:
            yield urls.redis


@pytest.fixture
def apart(server: str) -> Iterator[str]:
    """The cache is in that Redis; the prefix there."""
    with database.apart(server) as prefix:
        yield prefix


@pytest.fixture
def tables(transactional_db: None) -> Iterator[None]:
    """What cases compare with has no migrations."""
    with connection.schema_editor() as editor:
        for model in (NaiveCounter, Post):
            editor.create_model(model)
    yield
    with connection.schema_editor() as editor:
        for model in (NaiveCounter, Post):
            editor.delete_model(model)
