"""What the example says while it starts, and when its pages can be opened."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from example_project.bootstrap import children, environment

UNTIL_IT_IS_THERE = "import pathlib, sys\nwhile not pathlib.Path(sys.argv[1]).exists(): pass"


def test_an_installer_that_takes_long_is_seen_to_be_at_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    end = tmp_path / "end"

    def say(line: str) -> None:
        told.append(line)
        end.touch()

    monkeypatch.setattr(environment, "_say", say)
    monkeypatch.setattr(environment, "SAYS_EVERY", 0.01)
    waits = [sys.executable, "-c", UNTIL_IT_IS_THERE, str(end)]
    child = children.start(waits, log=tmp_path / "log")
    try:
        assert environment._waited(child) == 0
    finally:
        child.stop()
    assert told[0] == "still installing, 0 s so far"
