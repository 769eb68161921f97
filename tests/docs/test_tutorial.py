"""The tutorial, followed literally in a new project; tests.docs.tutorial installs it, too."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.docs.tutorial import ROOT, TUTORIAL, Reader, environment

# What makes the environment: here it is the one that the tests run in.
INSTALLING = ("python3 -m venv ", ". venv/", "python -m pip install ")
PAGE = TUTORIAL.read_text(encoding="utf-8")


@pytest.fixture
def reader(tmp_path: Path) -> Reader:
    """Somebody who has everything installed."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    here = {**environment(), "PATH": path, "PYTHONPATH": str(ROOT)}
    return Reader(tmp_path, here, lambda typed: "" if typed.startswith(INSTALLING) else typed)


def test_every_step_does_what_it_says(reader: Reader) -> None:
    reader.follow(PAGE)
    assert reader.compared >= 13


def test_another_output_is_noticed(reader: Reader) -> None:
    wrong = PAGE.replace("\n6\n4\n", "\n6\n5\n")
    with pytest.raises(AssertionError, match=r"objects\.decrement"):
        reader.follow(wrong)
