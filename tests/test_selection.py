"""Which tests run where: each folder has a row, and CONTRIBUTING.md says the same."""

from __future__ import annotations

import re

import pytest

from tests.selection import RUNS, TABLE, TESTS, is_drawn, is_left_out, row_of, table

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
    """By a step that names its folder."""
    lines = re.findall(r"--slow -m slow (.+)", (ROOT / ".ci/run").read_text(encoding="utf-8"))
    named = {folder.removeprefix("tests/") for line in lines for folder in line.split()}
    # Rows that are drawn each time, and configurations that take an hour.
    named |= {"benchmarks", "protocol"}
    for path in FILES:
        if re.search(r"mark\.slow\b", path.read_text(encoding="utf-8")):
            assert path.relative_to(TESTS).parts[0] in named, path


def test_every_test_has_its_turn_within_three_days(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[str] = []
    names = [path.name for path in FILES]
    for day in ("2026-11-30", "2026-12-01", "2026-12-02"):
        monkeypatch.setenv("COUNTERS_DAY", day)
        today = [name for name in names if is_drawn(name, 3)]
        assert 0.2 < len(today) / len(names) < 0.5
        drawn += today
    assert sorted(drawn) == sorted(names)


@pytest.mark.parametrize("run", RUNS)
def test_a_file_is_reached_where_its_row_says_so(run: str) -> None:
    for path in FILES:
        folders = [path, *(folder for folder in path.parents if folder.is_relative_to(TESTS))]
        reached = not any(is_left_out(folder, run) for folder in folders)
        assert reached == (run in TABLE[row_of(path)].runs), path
