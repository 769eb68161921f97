"""The tutorial, followed literally in a new project."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from django_counters import __file__ as package

ROOT = Path(package).resolve().parent.parent
TUTORIAL = ROOT / "docs" / "tutorial.md"
BLOCK = re.compile(r"^```(console|python)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FILE = re.compile(r"# ([\w/.]+)(?:, (.*))?\n")
DURATION = re.compile(r"in \d+\.\d+s")


def test_every_step_prints_what_it_says(tmp_path: Path) -> None:
    folder = tmp_path
    checked = 0
    for kind, text in BLOCK.findall(TUTORIAL.read_text(encoding="utf-8")):
        if kind == "python":
            _write(folder, text)
            continue
        for command, expected in _steps(text):
            if command.startswith("cd "):
                folder /= command.removeprefix("cd ")
            elif "pip install" not in command:
                printed = _run(command, folder)
                assert DURATION.sub("", printed) == DURATION.sub("", expected), command
                checked += bool(expected)
    assert checked >= 7


def _write(folder: Path, text: str) -> None:
    found = FILE.match(text)
    assert found, f"a block of Python names no file: {text}"
    name, where = found.groups()
    if where is None:
        (folder / name).write_text(text, encoding="utf-8")
    elif where == "at the end":
        with (folder / name).open("a", encoding="utf-8") as file:
            file.write(text)


def _steps(text: str) -> Iterator[tuple[str, str]]:
    """The commands of a block, each with what it is said to print."""
    for step in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        first, *rest = step.splitlines()
        more = [line for line in rest if line.startswith(">")]
        command = "\n".join([first, *(line[2:] for line in more)])
        yield command, "".join(f"{line}\n" for line in rest[len(more) :])


def _run(command: str, folder: Path) -> str:
    words = shlex.split(command)
    program = {"python": [], "django-admin": ["-m", "django"]}[words[0]]
    inherited = {key: value for key, value in os.environ.items() if not key.startswith("DJANGO_")}
    finished = subprocess.run(
        [sys.executable, *program, *words[1:]],
        cwd=folder,
        # Unbuffered, or what goes to stdout and to stderr changes places.
        env={**inherited, "PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=60,
        check=False,
    )
    assert finished.returncode == 0, f"{command}\n{finished.stdout}"
    return finished.stdout
