"""Each walk is as short as the page about it says, and leads through files that exist."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
from functools import cache, reduce
from importlib import import_module
from typing import Any

import pytest

from tests.docs.pages import ROOT
from tests.walks import MOST, Step, Walk


@cache
def recorded() -> dict[str, Walk]:
    """What the command prints, on the servers of the tests."""
    command = [sys.executable, "-m", "tests.walks", "--json"]
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    return {
        name: Walk(title, tuple(Step(*step) for step in steps), *map(tuple, rest))
        for name, (title, steps, *rest) in json.loads(done.stdout).items()
    }


@pytest.mark.parametrize("name", MOST)
def test_no_walk_becomes_longer(name: str) -> None:
    if name not in recorded():
        pytest.skip("likes aren't offered on MySQL and MariaDB")
    walk = recorded()[name]
    steps, others = MOST[name]
    assert len(walk.steps) <= steps
    assert len(walk.others) <= others
    assert walk.statements
    assert all((ROOT / path).is_file() for path in walk.others)


@pytest.mark.parametrize("name", MOST)
def test_each_step_is_the_function_of_its_line(name: str) -> None:
    for step in recorded()[name].steps if name in recorded() else ():
        module: Any = import_module(step.path.removesuffix(".py").replace("/", "."))
        function = inspect.unwrap(reduce(getattr, step.function.split("."), module))
        assert step.line == function.__code__.co_firstlineno, step
