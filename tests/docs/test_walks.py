"""Each walk is as short as the page about it says, and leads through files that exist."""

from __future__ import annotations

import inspect
import json
import re
import subprocess
import sys
from functools import cache, reduce
from importlib import import_module
from typing import Any

import pytest

from tests.docs.pages import ROOT, blocks, text_of
from tests.walks import MOST, PAGE, PLACE, Step, Walk, written

# They are as in any Django app.
UNSEEN = {"management", "migrations", "templatetags"}


@cache
def recorded() -> tuple[dict[str, Walk], dict[str, str]]:
    """What the command prints, on the servers of the tests; and as the page shows it."""
    command = [sys.executable, "-m", "tests.walks", "--json"]
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    walks, shown = json.loads(done.stdout)
    return {
        name: Walk(title, tuple(Step(*step) for step in steps), *map(tuple, rest))
        for name, (title, steps, *rest) in walks.items()
    }, shown


def recorded_walk(name: str) -> Walk:
    walks, _ = recorded()
    if name not in walks:
        pytest.skip("likes aren't offered on MySQL and MariaDB")
    return walks[name]


@pytest.mark.parametrize("name", MOST)
def test_no_walk_becomes_longer(name: str) -> None:
    walk = recorded_walk(name)
    steps, others = MOST[name]
    assert len(walk.steps) <= steps
    assert len(walk.others) <= others
    assert walk.statements
    assert all((ROOT / path).is_file() for path in walk.others)


@pytest.mark.parametrize("name", MOST)
def test_each_step_is_the_function_of_its_line(name: str) -> None:
    for step in recorded_walk(name).steps:
        module: Any = import_module(step.path.removesuffix(".py").replace("/", "."))
        function = inspect.unwrap(reduce(getattr, step.function.split("."), module))
        assert step.line == function.__code__.co_firstlineno, step
        assert step.sentence


@pytest.mark.postgresql
def test_the_page_has_the_walks() -> None:
    """Write them with ``python -m tests.walks --page``."""
    page = text_of(PAGE)
    assert [found[1] for found in PLACE.finditer(page)] == list(MOST)
    assert page == written(page, recorded()[1])


def test_the_page_has_each_folder() -> None:
    (tree,) = (block.text for block in blocks(PAGE, "text") if "features.py" in block.text)
    named = {line.split()[0].removesuffix("/") for line in tree.splitlines()[1:]}
    package = ROOT / "django_counters"
    below = [*package.iterdir(), *(package / "contrib").iterdir()]
    folders = {one.name for one in below if (one / "__init__.py").is_file()}
    assert folders - UNSEEN <= named
    assert named <= {one.name for one in [*below, *(package / "stores").iterdir()]}


def test_the_files_of_the_page_are_there() -> None:
    paths = re.findall(r"`(\w+/[\w/]+\.py)`", text_of(PAGE))
    assert len(paths) > 20
    assert [path for path in paths if not (ROOT / "django_counters" / path).is_file()] == []
