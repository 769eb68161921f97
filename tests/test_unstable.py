"""What a run of pytest does about a test that failed."""

from __future__ import annotations

import ast
import gc
import re
import traceback
from pathlib import Path

import pytest

from tests.unstable import SERIOUS

pytest_plugins = ["pytester"]
TESTS = Path(__file__).parent
# Runs nothing again where this is blocked, and so does not have to load it.
CONFTEST = """
import pytest
from pathlib import Path

def pytest_configure(config):
    config.addinivalue_line("markers", "rare")
    if not config.pluginmanager.is_blocked("unstable"):
        from tests.unstable import Unstable
        config.pluginmanager.register(Unstable(config), "unstable")

def once(name):
    tried = Path(f"{name}.tried")
    if not tried.exists():
        tried.touch()
        raise RuntimeError(f"once, in {name}")

@pytest.fixture
def setup():
    once("setup")

@pytest.fixture
def teardown():
    yield
    once("teardown")

@pytest.fixture
def broken():
    raise RuntimeError("always")

@pytest.fixture
def breaking():
    yield
    raise RuntimeError("always")
"""
FLAKY = """
from conftest import once
def test_flaky(): once("call")
"""
PHASES = f"""{FLAKY}
def test_setup(setup): pass
def test_teardown(teardown): pass
def test_passing(): pass
"""
# All but the first are red: the second passes alone, the third fails there.
BROKEN = """
import os, pytest
from pathlib import Path
seen = []
def test_first(): seen.append(1)
def test_after_another(): assert not seen
def test_alone():
    tried = Path("alone").exists()
    Path("alone").touch()
    assert seen and tried
def test_setup(broken): pass
def test_teardown(breaking): pass
def test_skipped_at_last():
    if Path("skipped").exists(): pytest.skip("the second time")
    Path("skipped").touch()
    assert False
"""
RARE = """
import pytest
from conftest import once
@pytest.mark.rare
def test_rare(): once("rare")
"""
CRASH = """
import os
from conftest import once
def test_crash():
    try: once("crash")
    except RuntimeError: os._exit(3)
"""


@pytest.fixture(name="project")
def _project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    pytester.makeconftest(CONFTEST)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("PYTHONPATH", str(TESTS.parent))
    monkeypatch.setenv("COUNTERS_UNSTABLE", str(pytester.path / "unstable"))
    for ours in ("DATABASE_URL", "PYTEST_XDIST_WORKER", "DJANGO_SETTINGS_MODULE"):
        monkeypatch.delenv(ours, raising=False)
    return pytester


def unstable(result: pytest.RunResult) -> list[str]:
    """The tests that a run calls unstable, in its last lines."""
    return [line for line in result.outlines if line.startswith("UNSTABLE ")]


def test_what_passes_twice_is_named_and_the_run_is_green(project: pytest.Pytester) -> None:
    project.makepyfile(test_a=PHASES)
    result = project.runpytest_inprocess("-ra")
    assert result.ret == 0
    names = [f"UNSTABLE test_a.py::test_{name}" for name in ("flaky", "setup", "teardown")]
    assert unstable(result) == names
    assert "2 passed, 3 unstable" in result.outlines[-1]
    result.stdout.fnmatch_lines([f"*RuntimeError: once, in {name}" for name in ("call", "setup")])
    # And so does the next run of the same whole.
    project.makepyfile(test_a="def test_passing(): pass")
    assert unstable(project.runpytest_inprocess()) == names


def test_what_fails_again_is_red(project: pytest.Pytester) -> None:
    project.makepyfile(test_a=BROKEN)
    result = project.runpytest_inprocess()
    assert result.ret == 1
    assert not unstable(result)
    result.assert_outcomes(passed=2, failed=3, errors=2)


def test_a_run_that_stops_early_stays_red(project: pytest.Pytester) -> None:
    project.makepyfile(test_a=FLAKY, test_b="import nowhere")
    for options in (["-x", "test_a.py"], ["-pno:unstable", "test_a.py"], []):
        Path("call.tried").unlink(missing_ok=True)
        result = project.runpytest_inprocess(*options)
        assert result.ret != 0
        assert not unstable(result)
    # Here the run ends, and what was not collected still is a failure.
    Path("call.tried").unlink(missing_ok=True)
    result = project.runpytest_inprocess("--continue-on-collection-errors")
    assert result.ret == 1
    assert unstable(result) == ["UNSTABLE test_a.py::test_flaky"]


def test_on_mariadb_nothing_runs_again(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_URL", "mysql://root@127.0.0.1/")
    project.makepyfile(test_a=FLAKY)
    assert project.runpytest_inprocess().ret == 1


def test_with_workers(project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTEST_ADDOPTS", "-pxdist")
    project.makepyfile(test_a=FLAKY)
    result = project.runpytest_subprocess("-n1")
    assert result.ret == 0
    assert unstable(result) == ["UNSTABLE test_a.py::test_flaky"]
    project.makepyfile(test_b=RARE, test_c=CRASH)
    result = project.runpytest_subprocess("-n1")
    assert result.ret == 1
    result.assert_outcomes(passed=1, failed=2)
    result.stdout.fnmatch_lines(["*servers when it failed*", "seed: *", "Redis: redis_version *"])


CROWD = re.compile(
    r"\b(Threads|at_once|in_turns|processes|machines\.run|Thread|ThreadPoolExecutor|kill|send_signal)\("
)


def test_crowds_and_models_fail_at_once() -> None:
    """A test that starts or kills one, or calls a function of its file that does, has a marker.

    The servers of a test run are not part of the product.
    """
    files = {*TESTS.rglob("test_*.py")} - {Path(__file__), *(TESTS / "bootstrap").iterdir()}
    found = {path: unmarked(path.read_text()) for path in files}
    assert {path: names for path, names in found.items() if names} == {}
    assert unmarked("def a(): at_once(1)\nasync def test_b(): a()") == {"test_b"}
    for call in ("os.kill(pid, 9)", "one.send_signal(2)", "threading.Thread()", "Thread()"):
        assert unmarked(f"def test_a(): {call}") == {"test_a"}
    assert unmarked("def test_a():\n  with ThreadPoolExecutor(2): pass") == {"test_a"}


def unmarked(text: str) -> set[str]:
    """The tests of a file that start a crowd or a model and have none of the markers."""
    if not CROWD.search(text):
        return set()
    bodies: dict[str, str] = {}
    marked: set[str] = set()
    for node in ast.walk(ast.parse(text)):
        marks: list[ast.AST] = []
        if isinstance(node, ast.Module):
            marks += [child for child in node.body if "pytestmark =" in ast.unparse(child)[:13]]
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            marks += node.decorator_list
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            bodies[node.name] = "\n".join(map(ast.unparse, node.body))
        if any(f".{name}" in ast.unparse(mark) for mark in marks for name in SERIOUS):
            marked |= {one.name for one in ast.walk(node) if isinstance(one, ast.FunctionDef)}
    users = {name for name, body in bodies.items() if CROWD.search(body)}
    while (
        more := {
            name
            for name, body in bodies.items()
            if any(re.search(rf"\b{user}\(", body) for user in users)
        }
        - users
    ):
        users |= more
    return {name for name in users - marked if name.startswith("test_")}


def test_a_traceback_printed_during_parsing_does_not_end_the_run() -> None:
    """Pytest parses the file of a failed test. A garbage collection lets other threads run."""
    printed: list[str] = []

    def collecting(phase: str, info: object) -> None:
        try:
            len(printed) / 0
        except ZeroDivisionError:
            printed.append(traceback.format_exc())

    often = gc.get_threshold()
    gc.callbacks.append(collecting)
    gc.set_threshold(1)
    try:
        ast.parse(Path(__file__).read_text())
    finally:
        gc.set_threshold(*often)
        gc.callbacks.remove(collecting)
    assert "ZeroDivisionError" in printed[0]
