"""Options and fixtures of the suite."""

from __future__ import annotations

import gc
import os
import secrets
import sys
import traceback
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import redis
from django.conf import settings
from django.db import connection, connections
from django.db.backends.postgresql.creation import DatabaseCreation
from django.test import TransactionTestCase, override_settings
from hypothesis import HealthCheck
from hypothesis import settings as examples
from pytest_django import DjangoDbBlocker
from pytest_django.plugin import blocking_manager_key

from django_counters.cached.sources import slots_of
from django_counters.contrib.regions.sql import STATEMENTS, UNOFFERED
from django_counters.errors import InvalidConfiguration
from django_counters.stores.sql.dialects import DIALECTS
from django_counters.testing import override_counters
from tests import template
from tests.durations import Durations
from tests.keeping import renew
from tests.selection import RUNS, TESTS, is_drawn, is_left_out
from tests.unstable import Unstable

# How long an example takes says how busy the machine is.
examples.register_profile("counters", deadline=None, suppress_health_check=[HealthCheck.too_slow])
examples.register_profile("few", examples.get_profile("counters"), max_examples=30)
examples.load_profile("counters")

if sys.version_info < (3, 11, 8):
    # Two threads that parse at once may both fail there (python/cpython#106905): pytest parses the
    # file of a failed test. Tracebacks parse to mark an operator. They mark the expression instead.
    traceback._extract_caret_anchors_from_line_segment = lambda _: None  # type: ignore[attr-defined]

# Markers of tests that do not run on each database: why, and where they do.
NEEDS = {
    "many_writers": ("needs many writers at once", ("postgresql", "mysql")),
    "postgresql": ("is about PostgreSQL", ("postgresql",)),
}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--slow", action="store_true", help="run the tests that take minutes, too")
    parser.addoption(
        "--faults",
        nargs="?",
        const="short",
        choices=("short", "long"),
        help="run the tests that kill servers and processes, and no others: minutes, or an hour",
    )
    parser.addoption(
        "--depends-on",
        choices=tuple(RUNS),
        help="run what could differ there, and no others; see tests/selection.py",
    )
    parser.addoption(
        "--one-in", type=int, default=1, help="run one test in so many: others each COUNTERS_DAY"
    )
    parser.addoption(
        "--durations-by-folder", action="store_true", help="say where the time of the tests goes"
    )


def pytest_configure(config: pytest.Config) -> None:
    examples.load_profile("counters" if config.getoption("--slow") else "few")
    if config.getoption("--faults"):
        config.pluginmanager.import_plugin("tests.faults.plugin")
    if config.getoption("--durations-by-folder") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Durations())
    config.pluginmanager.register(Unstable(config), "unstable")
    # What Django asks after each transactional test, to close all connections.
    TransactionTestCase._should_reload_connections = _renewed  # type: ignore[attr-defined]
    DatabaseCreation._destroy_test_db = _dropped  # type: ignore[attr-defined]


def _dropped(creation: Any, name: str, verbosity: int) -> None:
    """Drop a test database, even if the server still ends the session of a killed process."""
    with creation._nodb_cursor() as cursor:
        cursor.execute(f"DROP DATABASE {creation.connection.ops.quote_name(name)} WITH (FORCE)")


def _renewed(case: Any) -> bool:
    renew(case._databases_names(include_mirrors=False))
    return False


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    run = config.getoption("--depends-on")
    return True if run and is_left_out(collection_path, run) else None


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection(session: pytest.Session) -> Generator[None, Any, Any]:
    """Without searching for garbage: nearly all that is made here stays."""
    gc.disable()
    try:
        _compile_share(session.config)
        return (yield)
    finally:
        gc.enable()


def _compile_share(config: pytest.Config) -> None:
    """Of a whole run, each process compiles its share of the files, then reads those of others."""
    worker = getattr(config, "workerinput", None)
    if worker and config.args_source is pytest.Config.ArgsSource.TESTPATHS:
        first = int(worker["workerid"].removeprefix("gw"))
        for path in sorted(TESTS.rglob("test_*.py"))[first :: worker["workercount"]]:
            if not pytest_ignore_collect(path, config):
                # Whatever is wrong with it, the collection will say.
                with suppress(Exception, pytest.skip.Exception):
                    import_module(".".join(path.relative_to(TESTS.parent).with_suffix("").parts))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    one_in = config.getoption("--one-in")
    config.hook.pytest_deselected(items=[i for i in items if not is_drawn(i.nodeid, one_in)])
    items[:] = [item for item in items if is_drawn(item.nodeid, one_in)]
    vendor = connection.vendor
    for item in items:
        if item.get_closest_marker("slow") and not config.getoption("--slow"):
            item.add_marker(pytest.mark.skip(reason="takes minutes: run with --slow"))
        if item.get_closest_marker("alone") and "PYTEST_XDIST_WORKER" in os.environ:
            item.add_marker(pytest.mark.skip(reason="needs the server for itself: run with -n 0"))
        if item.get_closest_marker("faults") and not config.getoption("--faults"):
            item.add_marker(pytest.mark.skip(reason="kills servers: run with --faults"))
        for marker, (needs, vendors) in NEEDS.items():
            if item.get_closest_marker(marker) and vendor not in vendors:
                item.add_marker(pytest.mark.skip(reason=f"{needs}; this run is on {vendor}"))


def pytest_collection_finish() -> None:
    """What is there by now stays: no collection of garbage has to go through it."""
    gc.freeze()


def pytest_runtest_setup(item: pytest.Item) -> None:
    for feature in (name for one in item.iter_markers("needs") for name in one.args):
        if feature in DIALECTS[connection.vendor].lacks:
            pytest.skip(DIALECTS[connection.vendor].lacks[feature])


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Any:
    """Skip what a database refuses by its kind: the refusal is the reason.

    Tests of one kind of database see the refusal themselves.
    """
    report = yield
    error = call.excinfo and call.excinfo.value
    lacks = DIALECTS[connection.vendor].lacks.values()
    while error is not None and "test_mysql.py" not in item.nodeid:
        if isinstance(error, InvalidConfiguration) and error.problem in lacks:
            path, line, _ = item.location
            report.outcome = "skipped"
            report.longrepr = path, line or 0, f"Skipped: {error.problem}"
        error = error.__cause__ or error.__context__
    return report


@pytest.hookimpl(trylast=True)  # after whoever ends the workers or drops their databases
def pytest_sessionfinish(session: pytest.Session) -> None:
    config = session.config
    if hasattr(config, "workerinput") or config.getoption("collectonly"):
        return
    if session.testscollected:
        with config.stash[blocking_manager_key].unblock():
            template.drop()


@pytest.fixture(scope="session")
def django_db_modify_db_settings(
    django_db_modify_db_settings_parallel_suffix: None, django_db_blocker: DjangoDbBlocker
) -> None:
    """Replaces a fixture of pytest-django, which comes before the databases are made."""
    with django_db_blocker.unblock():
        template.make()


@pytest.fixture
def isolated_counters() -> None:
    """In place of that of the plugin: other processes take part in these tests."""


@pytest.fixture(autouse=True)
def _nothing_left_in_redis(request: pytest.FixtureRequest) -> Iterator[None]:
    """What a test has counted there and not landed must not land in the database of another."""
    yield
    marker = request.node.get_closest_marker("django_db")
    commits = marker is not None and marker.kwargs.get("transaction")
    if commits or "transactional_db" in request.fixturenames:
        for alias in connections:
            forget_pending(alias, str(settings.CACHES["default"].get("KEY_PREFIX", "")))


@pytest.fixture
def elsewhere() -> Iterator[Callable[[Callable[[], Any]], Any]]:
    """A function that makes a call on a connection of its own.

    On servers that connection waits two seconds for a lock and no more, so that a call which has to
    wait for the transaction of the test fails.
    """
    patience = {
        "postgresql": "SET lock_timeout = '2s'",
        "mysql": "SET SESSION innodb_lock_wait_timeout = 2",
    }

    def impatient(call: Callable[[], Any]) -> Any:
        if connection.vendor in patience:
            with connection.cursor() as cursor:
                cursor.execute(patience[connection.vendor])
        return call()

    with ThreadPoolExecutor(1) as pool:
        yield lambda call: pool.submit(impatient, call).result(60)
        pool.submit(connections.close_all).result(60)


@pytest.fixture
def keeps_regions() -> None:
    """For tests of regional counters: skips them where the database cannot have any."""
    if connection.vendor not in STATEMENTS:
        pytest.skip(UNOFFERED)


@pytest.fixture
def cached() -> Iterator[str]:
    """The namespace ``views`` is cached, in a Redis where nothing waits yet; the prefix there."""
    prefix = secrets.token_hex(6)
    caches = {
        "default": {
            "BACKEND": "django.core.cache.backends.redis.RedisCache",
            "LOCATION": os.environ["REDIS_URL"],
            "KEY_PREFIX": prefix,
        }
    }
    # Patient: the machine of a test may be busy, and a lost answer is another test.
    views = {"STRATEGY": "cached", "OPTIONS": {"timeout": 10}}
    with override_settings(CACHES=caches), override_counters(views=views):
        yield prefix
        for alias in connections:
            forget_pending(alias, prefix)


def forget_pending(using: str, prefix: str) -> None:
    """Delete all that one test has left in Redis."""
    pattern = slots_of(using, prefix).keys(0)[0].replace(":0}:p", ":*")
    client = _redis(os.environ["REDIS_URL"], os.getpid())
    if found := list(client.scan_iter(pattern, count=10_000)):
        client.delete(*found)


@lru_cache(maxsize=1)
def _redis(url: str, _process: int) -> redis.Redis:
    """One client for all tests of a process: to connect takes longer than to look."""
    return redis.Redis.from_url(url)
