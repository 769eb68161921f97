"""What stands in the blocks of the pages works: see tests.docs.blocks for those of Python."""

from __future__ import annotations

import importlib.util
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from itertools import takewhile

import pytest
from django.core.management import get_commands, load_command_class
from django.core.management.base import BaseCommand, CommandParser

from tests.docs.pages import PAGES, ROOT, blocks, name_of, steps, text_of

# The pages whose blocks of Python are not all run. Not to be added to without need.
NOT_RUN = [
    *("docs/how-to/admin.md", "docs/how-to/adopt-a-column.md", "docs/how-to/celery-beat.md"),
    "docs/how-to/several-databases.md",
    *["docs/streams.md"] * 3,
]
ASSIGNED = re.compile(r"^([A-Z_]+=\S* +)+")
SHELL = ("|", "||", "&", "&&", ";", ">", ">>", "<")


@pytest.mark.many_writers
def test_the_blocks_of_python_work() -> None:
    finished = subprocess.run(
        [sys.executable, "-W", "error", "-m", "tests.docs.blocks"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=600,
        check=False,
    )
    assert finished.returncode == 0, finished.stdout


def test_each_block_that_is_not_run_says_why() -> None:
    left = [one for page in PAGES for one in blocks(page, "python") if one.why_not is not None]
    assert [one.page for one in left if one.why_not] == NOT_RUN
    assert sum(text_of(page).count("<!-- not run:") for page in PAGES) == len(left)


def commands() -> Iterator[tuple[str, list[str]]]:
    """The page and the words of each command of Python; without what is set for it."""
    for page in PAGES:
        for block in blocks(page, "console"):
            for command, _ in steps(block.text):
                words = ASSIGNED.sub("", command)
                if words.startswith(("python ", "python3 ")):
                    # Up to where the shell goes on: another command, or a file for the output.
                    whole = shlex.split(words, comments=True)
                    yield name_of(page), list(takewhile(lambda word: word not in SHELL, whole))


def parser_of(name: str) -> CommandParser:
    """What reads the arguments of a command of ``manage.py``."""
    app = get_commands()[name]
    command = app if isinstance(app, BaseCommand) else load_command_class(app, name)
    return command.create_parser("manage.py", name)


def test_commands_take_what_is_given() -> None:
    for page, (_, first, name, *given) in commands():
        if first == "manage.py":
            # The pages have another second database than these tests.
            parser_of(name).parse_args(["other" if word == "stats" else word for word in given])
        elif first == "-m" and name not in ("pip", "venv"):
            assert importlib.util.find_spec(name), f"{page}: there is no {name}"
