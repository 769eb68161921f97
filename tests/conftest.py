"""Options and fixtures of the suite."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import redis
from django.conf import settings
from django.db import connection, connections
from django.test import override_settings
from hypothesis import HealthCheck
from hypothesis import settings as examples

from django_counters.stores.redis.keys import Slots
from django_counters.testing import override_counters

# How long an example takes says how busy the machine is.
examples.register_profile("counters", deadline=None, suppress_health_check=[HealthCheck.too_slow])
examples.load_profile("counters")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--slow", action="store_true", help="run the tests that take minutes, too")
    parser.addoption(
        "--faults",
        nargs="?",
        const="short",
        choices=("short", "long"),
        help="run the tests that kill servers and processes, and no others: minutes, or an hour",
    )


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--faults"):
        config.pluginmanager.import_plugin("tests.faults.plugin")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    vendor = connection.vendor
    for item in items:
        if item.get_closest_marker("slow") and not config.getoption("--slow"):
            item.add_marker(pytest.mark.skip(reason="takes minutes: run with --slow"))
        if item.get_closest_marker("faults") and not config.getoption("--faults"):
            item.add_marker(pytest.mark.skip(reason="kills servers: run with --faults"))
        if item.get_closest_marker("postgres") and vendor != "postgresql":
            reason = f"needs PostgreSQL (many writers at once); this run is on {vendor}"
            item.add_marker(pytest.mark.skip(reason=reason))


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

    On PostgreSQL that connection waits two seconds for a lock and no more, so that a call which has
    to wait for the transaction of the test fails.
    """

    def impatient(call: Callable[[], Any]) -> Any:
        if connection.vendor == "postgresql":
            with connection.cursor() as cursor:
                cursor.execute("SET lock_timeout = '2s'")
        return call()

    with ThreadPoolExecutor(1) as pool:
        yield lambda call: pool.submit(impatient, call).result(60)
        pool.submit(connections.close_all).result(60)


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
    pattern = Slots(using, prefix).keys(0)[0].replace(":0}:p", ":*")
    with redis.Redis.from_url(os.environ["REDIS_URL"]) as client:
        found = list(client.scan_iter(pattern, count=1000))
        if found:
            client.delete(*found)
