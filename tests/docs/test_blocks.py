"""What stands in the blocks of the pages works: see tests.docs.blocks for those of Python."""

from __future__ import annotations

import configparser
import importlib.util
import json
import re
import shlex
import subprocess
import sys
import tomllib
from argparse import _SubParsersAction
from collections import Counter
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path

import pytest
import yaml
from django.core.management import get_commands, load_command_class
from django.core.management.base import BaseCommand, CommandParser

from tests.docs.comments import check
from tests.docs.pages import PAGES, ROOT, blocks, name_of
from tests.docs.tutorial import steps

# How many blocks of Python are not run, page by page. Not to be added to without need.
NOT_RUN = {"docs/how-to/admin.md": 1}
INLINE = re.compile(r"`(?:python )?manage\.py ([^`…]+)`")
ASSIGNED = re.compile(r"^([A-Z_]+=\S* +)+")
SHELL = ("|", "||", "&", "&&", ";", ">", ">>", "<")
SECONDS = 600
WRONG = """\
# A page

```python
from django_counters.models import Counter

Counter.objects.increment("a", 2, ceilings=3)
```

```python
Counter.objects.increment("b", 2)  # → 3
```

```python
Counter.objects.values_of(["b"])  # → int, the value
```

```python
def visit(post):
    return post.views.incremented()
```

```python
def visit(someone):
    return someone.views.increment()
```

```python
def visit(post):
    def inner():
        return post
```

```python
# settings.py
COUNTERS = {"stock": {"FLOORS": 0}}
```

```python
# settings.py
INSTALLED_APS = ["django_counters"]
```

```python
print(nobody_knows)
```

```python
from django.test import TestCase


class StockTests(TestCase):
    def test_it(self):
        self.assertEqual(Counter.objects.value("b"), 7)
```

<!-- not run: it would fail -->
```python
Counter.objects.nothing()
```

```python
Counter.objects.increment("b", 2)  # → 4
```
"""


def run(*pages: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "error", "-m", "tests.docs.blocks", *pages],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=SECONDS,
        check=False,
    )


@pytest.mark.postgres
def test_the_blocks_of_python_work() -> None:
    finished = run()
    assert finished.returncode == 0, finished.stdout


@pytest.mark.postgres
def test_a_wrong_block_is_found(tmp_path: Path) -> None:
    page = tmp_path / "wrong.md"
    page.write_text(WRONG, encoding="utf-8")
    finished = run(str(page))
    found = [line.removeprefix(f"{page}:") for line in finished.stdout.splitlines()]
    found = [line for line in found if re.match(r"\d+: ", line)]
    assert [line.split(": ")[0] for line in found] == [
        *("6", "10", "14", "19", "23", "29", "34", "39", "44", "48")
    ], finished.stdout
    assert "inner is never called" in found[5]
    assert finished.returncode == 1


def test_each_block_that_is_not_run_says_why() -> None:
    left = [
        block for page in PAGES for block in blocks(page, "python") if block.why_not is not None
    ]
    assert [block for block in left if not block.why_not] == []
    assert Counter(block.page for block in left) == NOT_RUN


def test_a_mark_belongs_to_a_block() -> None:
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        marks = re.findall(r"<!-- not run:", text)
        found = [one for one in blocks(page, r"python") if one.why_not is not None]
        assert len(marks) == len(found), name_of(page)


@pytest.mark.parametrize(
    ("value", "comment", "right"),
    [
        (4, "→ 4", True),
        (4, "→ 5", False),
        ((42, 40, -2), "42, 40, -2", True),
        ((42, 40, -1), "42, 40, -2", False),
        (4, "int; 0 if it was never counted", True),
        ({}, "→ int, the new value", False),
        ([], '→ {"views:a": …}', False),
        ({}, '→ {"views:a": …}', True),
        (4, "→ Reading(value, total, pending, …)", False),
        (4, "adds 5", True),
    ],
)
def test_a_comment_says_what_a_call_returns(value: object, comment: str, right: bool) -> None:
    if right:
        assert check(value, comment) is value
    else:
        with pytest.raises(AssertionError):
            check(value, comment)


def commands(page: Path) -> Iterator[list[str]]:
    """The words of each command of Python; without what is set for it."""
    for block in blocks(page, "console"):
        for command, _ in steps(block.text.replace("\\\n", " ")):
            words = ASSIGNED.sub("", command)
            if words.startswith(("python ", "python3 ")):
                # Up to where the shell goes on: another command, or a file for the output.
                whole = shlex.split(words, comments=True)
                yield list(takewhile(lambda word: word not in SHELL, whole))


def parser_of(name: str) -> CommandParser:
    """What reads the arguments of a command of ``manage.py``."""
    app = get_commands()[name]
    command = app if isinstance(app, BaseCommand) else load_command_class(app, name)
    return command.create_parser("manage.py", name)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_commands_take_what_is_given(page: Path) -> None:
    for _, first, name, *given in commands(page):
        if first == "manage.py":
            # The pages have another second database than these tests.
            words = ["other" if word == "stats" else word for word in given]
            parser_of(name).parse_args(words)
        elif name not in ("pip", "venv"):
            assert importlib.util.find_spec(name), f"there is no {name}"


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_commands_that_are_mentioned_have_these_options(page: Path) -> None:
    """A mention need not be whole: what has to be there may be missing."""
    for found in INLINE.findall(page.read_text(encoding="utf-8")):
        name, *words = shlex.split(found)
        parser = parser_of(name)
        known = set(parser._option_string_actions)
        if name == "counters" and words:
            (subs,) = (one for one in parser._actions if isinstance(one, _SubParsersAction))
            known |= set(subs.choices[words[0]]._option_string_actions)
        assert {word for word in words if word.startswith("-")} <= known, found


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_data_can_be_read(page: Path) -> None:
    for block in blocks(page, "json", "toml", "yaml", "yml", "ini"):
        if block.language == "json":
            json.loads(block.text)
        elif block.language == "toml":
            tomllib.loads(block.text)
        elif block.language == "ini":
            configparser.ConfigParser(interpolation=None).read_string(block.text)
        else:
            yaml.safe_load(block.text)
