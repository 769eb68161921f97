"""A test that failed runs twice more at the end: alone, then with all tests of its file.

If it passes both times, the run names it as unstable and is green. The second run has the order of
the first, so a test that another test of its file breaks fails again. A race, a crash or a random
example may find a real fault once in a hundred runs: such a test fails at once, and the state of
its servers is printed. ``-p no:unstable`` runs nothing again.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Generator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import redis
from django.conf import settings
from django.db import connections
from pytest_django.plugin import blocking_manager_key

# More than these are no bad luck.
MOST = 10
PATIENCE = 900
# A file that collects the names over several runs.
COLLECTED = "COUNTERS_UNSTABLE"
# Markers; Hypothesis sets its own.
SERIOUS = ("rare", "many_writers", "faults", "hypothesis")
PHASES = ("setup", "call", "teardown")
STATE = {
    "postgresql": (
        "SELECT pid, state, wait_event_type, wait_event, clock_timestamp() - xact_start,"
        " pg_blocking_pids(pid), left(query, 200) FROM pg_stat_activity"
        " WHERE datname IS NOT NULL AND pid <> pg_backend_pid() ORDER BY xact_start LIMIT 30",
        "SELECT pid, locktype, relation, transactionid, mode FROM pg_locks WHERE NOT granted"
        " LIMIT 30",
    ),
    "mysql": ("SHOW ENGINE INNODB STATUS",),
}
INFO = "redis_version uptime_in_seconds connected_clients blocked_clients used_memory_human loading"


def is_serious(item: pytest.Item) -> bool:
    """Whether one failure of a test may show a real fault that is rare."""
    on_mysql = os.environ.get("DATABASE_URL", "").startswith("mysql")
    return on_mysql or any(item.get_closest_marker(name) for name in SERIOUS)


class Unstable:
    """The plugin, in each process of a run."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        # How many failures of each test may be cleared, as one may fail in its teardown as well.
        self.again: Counter[str] = Counter()
        self.unstable: list[str] = []
        self.worker_died = False

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Generator[None, Any, Any]:
        """Where the test ran."""
        report = yield
        if report.failed and is_serious(item):
            report.is_serious = True
            report.sections.append(("servers when it failed", _servers(item.config)))
        return report

    def pytest_runtest_logreport(self, report: Any) -> None:
        # A test in which a worker died is reported for another phase.
        if report.failed and report.when in PHASES and not getattr(report, "is_serious", False):
            self.again[report.nodeid] += 1

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: object, error: object) -> None:
        self.worker_died |= bool(error)

    @pytest.hookimpl(trylast=True)  # the workers have ended
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        # A run that stopped early has not tried all.
        stopped = session.exitstatus != pytest.ExitCode.TESTS_FAILED or session.shouldfail
        if hasattr(self.config, "workerinput") or stopped or len(self.again) > MOST:
            return
        alone = [test for test in self.again if test in self._passed(test)]
        files = dict.fromkeys(test.partition("::")[0] for test in alone)
        passed = {test for file in files for test in self._passed(file)}
        self.unstable = [test for test in alone if test in passed]
        if self.unstable and (path := os.environ.get(COLLECTED)):
            with Path(path).open("a") as file:
                file.writelines(f"UNSTABLE {test}\n" for test in self.unstable)
        # Also what failed without a report of a test, such as a collection.
        cleared = sum(self.again[test] for test in self.unstable)
        if 0 < cleared == session.testsfailed and not self.worker_died:
            session.exitstatus = pytest.ExitCode.OK

    def _passed(self, tests: str) -> set[str]:
        """Run a test or a file in a process of its own, and return the tests that passed."""
        options = ["-p", "no:unstable", "-p", "no:cacheprovider", "-rpfE"]
        if self.config.pluginmanager.hasplugin("xdist"):
            options += ["-n", "0"]
        if self.config.getoption("--slow", default=False):
            options += ["--slow"]
        if (seed := self.config.getoption("randomly_seed", default=None)) is not None:
            options += [f"--randomly-seed={seed}"]
        ours = ("COUNTERS_TEST_RUN", "PYTEST_XDIST_WORKER", "PYTEST_CURRENT_TEST")
        try:
            run = subprocess.run(
                [sys.executable, "-m", "pytest", *options, tests],
                cwd=self.config.rootpath,
                env={name: value for name, value in os.environ.items() if name not in ours},
                capture_output=True,
                text=True,
                timeout=PATIENCE,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return set()
        said = [line.partition(" ") for line in run.stdout.splitlines()]
        passed = {test for outcome, _, test in said if outcome == "PASSED"}
        # One that failed in its teardown has passed as well; a message follows its name.
        failed = tuple(test for outcome, _, test in said if outcome in {"FAILED", "ERROR"})
        return {test for test in passed if not any(one.startswith(test) for one in failed)}

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_terminal_summary(
        self, terminalreporter: pytest.TerminalReporter
    ) -> Generator[None, Any, None]:
        """Print what failed at first, and at the very end the names, those of earlier runs too."""
        moved = self._moved(terminalreporter)
        for report in moved:
            terminalreporter.section(f"failed, then passed twice: {report.nodeid}", sep="_")
            terminalreporter.write_line(report.longreprtext)
        yield
        path = os.environ.get(COLLECTED)
        earlier = Path(path).read_text().splitlines() if path and Path(path).exists() else []
        for line in dict.fromkeys([*earlier, *(f"UNSTABLE {test}" for test in self.unstable)]):
            terminalreporter.write_line(line)

    def _moved(self, terminalreporter: pytest.TerminalReporter) -> list[Any]:
        """The failures that count as unstable, which count as failed no longer."""
        stats = terminalreporter.stats
        moved = []
        for name in list(stats):
            mine = [
                one
                for one in stats[name]
                if getattr(one, "failed", False) and getattr(one, "nodeid", "") in self.unstable
            ]
            if mine:
                moved += mine
                stats[name] = [one for one in stats[name] if one not in mine]
                if not stats[name]:
                    del stats[name]
        if moved:
            stats["unstable"] = moved
        return moved


def _servers(config: pytest.Config) -> str:
    """What repeats the test, and what the database and Redis were doing."""
    lines = [f"seed: --randomly-seed={config.getoption('randomly_seed', default='none')}"]
    for asked in (partial(_database, config), _redis):
        try:
            lines += asked()
        except Exception as error:
            lines.append(f"not known: {error!r}")
    return "\n".join(lines)


def _database(config: pytest.Config) -> list[str]:
    if not settings.configured:
        return ["no database"]
    with config.stash[blocking_manager_key].unblock():
        connection = connections["default"].copy()
        try:
            with connection.cursor() as cursor:
                lines = [f"database: {connection.vendor}"]
                for statement in STATE.get(connection.vendor, ()):
                    cursor.execute(statement)
                    lines += [" | ".join(map(str, row))[-8_000:] for row in cursor.fetchall()]
        finally:
            connection.close()
    return lines


def _redis() -> list[str]:
    with redis.Redis.from_url(os.environ["REDIS_URL"], socket_timeout=5) as client:
        info: Any = client.info()
    return ["Redis: " + ", ".join(f"{name} {info.get(name)}" for name in INFO.split())]
