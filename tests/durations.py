"""``--durations-by-folder``: where the time of the tests goes."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

import pytest

PHASES = ("setup", "call", "teardown")


@dataclass(eq=False)  # pluggy wants to hash it
class Durations:
    """Seconds of set-up, call and teardown, and the tests, of each folder of ``tests``."""

    tests: defaultdict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    seconds: defaultdict[str, defaultdict[str, float]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(float))
    )

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add one phase of one test."""
        file = report.nodeid.partition("::")[0].removeprefix("tests/")
        folder = file.partition("/")[0] if "/" in file else "(top level)"
        self.tests[folder].add(report.nodeid)
        self.seconds[folder][report.when] += report.duration

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print a line for each folder, the longest first."""
        terminalreporter.section("seconds by folder, of all processes together")
        rows = [(sum(phases.values()), folder, phases) for folder, phases in self.seconds.items()]
        for total, folder, phases in sorted(rows, key=lambda row: row[:2], reverse=True):
            parts = ", ".join(
                f"{phase} {phases[phase]:.0f}" for phase in ("setup", "call", "teardown")
            )
            terminalreporter.write_line(
                f"{total:8.1f}  {folder:<16} {len(self.tests[folder]):>5} tests  ({parts})"
            )
        terminalreporter.write_line(f"{sum(row[0] for row in rows):8.1f}  all")
