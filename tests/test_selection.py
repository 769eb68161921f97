"""Which tests run where: each folder has a row, and CONTRIBUTING.md says the same."""

from __future__ import annotations

import re

import pytest

from tests.selection import RUNS, TABLE, TESTS, is_left_out, row_of, table

ROOT = TESTS.parent
FILES = sorted(TESTS.rglob("test_*.py"))


def test_each_folder_has_a_row_and_each_row_has_tests() -> None:
    folders = {path.relative_to(TESTS).parts[0] for path in FILES if path.parent != TESTS}
    assert folders <= set(TABLE)
    assert {row_of(path) for path in FILES} == set(TABLE)


def test_contributing_has_the_table() -> None:
    assert table() in (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("run", RUNS)
def test_each_run_is_a_step_of_the_whole(run: str) -> None:
    steps = [(ROOT / name).read_text(encoding="utf-8") for name in (".ci/run", "tox.ini")]
    assert any(f"--depends-on={run}" in text for text in steps)


def test_what_is_slow_runs_somewhere() -> None:
    """By the server's row, or by the step that names its folder."""
    (line,) = re.findall(r"--slow -m slow (.+)", (ROOT / ".ci/run").read_text(encoding="utf-8"))
    named = {folder.removeprefix("tests/") for folder in line.split()}
    # Rows that are drawn each time, and configurations that take an hour.
    named |= {"benchmarks", "protocol"}
    for path in FILES:
        if re.search(r"mark\.slow\b", path.read_text(encoding="utf-8")):
            row = row_of(path)
            assert "server" in TABLE[row].runs or row.partition("/")[0] in named, path


@pytest.mark.parametrize("run", RUNS)
def test_a_file_is_reached_where_its_row_says_so(run: str) -> None:
    for path in FILES:
        folders = [path, *(folder for folder in path.parents if folder.is_relative_to(TESTS))]
        reached = not any(is_left_out(folder, run) for folder in folders)
        assert reached == (run in TABLE[row_of(path)].runs), path
