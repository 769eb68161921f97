"""With ``--faults`` these tests are run and no others, and each tells what it found."""

from __future__ import annotations

import pytest


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out all others."""
    chosen = [item for item in items if item.get_closest_marker("faults")]
    config.hook.pytest_deselected(items=[item for item in items if item not in set(chosen)])
    items[:] = chosen


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the verdicts, also of tests that passed."""
    terminalreporter.section("faults")
    for reports in terminalreporter.stats.values():
        for report in reports:
            for name, value in getattr(report, "user_properties", ()):
                if report.when == "call":
                    test = report.nodeid.rpartition("::")[2]
                    terminalreporter.write_line(f"{test}: {name}: {value}")
