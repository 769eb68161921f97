"""Options and fixtures of the suite."""

from __future__ import annotations

import pytest
from django.db import connection


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
