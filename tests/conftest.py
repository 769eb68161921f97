"""Options and fixtures of the suite."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.db import connection, connections


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--slow", action="store_true", help="run the tests that take minutes, too")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    vendor = connection.vendor
    for item in items:
        if item.get_closest_marker("slow") and not config.getoption("--slow"):
            item.add_marker(pytest.mark.skip(reason="takes minutes: run with --slow"))
        if item.get_closest_marker("postgres") and vendor != "postgresql":
            reason = f"needs PostgreSQL (many writers at once); this run is on {vendor}"
            item.add_marker(pytest.mark.skip(reason=reason))


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
