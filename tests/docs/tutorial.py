"""Follows the tutorial literally, from an empty folder: ``python -m tests.docs.tutorial``.

The commands are given to a shell as they stand there, and have to print what stands below them; the
server is started, its pages are opened and its form is sent. Three things are put in place of what
is written: this checkout for the name of the distribution, the Django that ``--django`` asks for
(by a constraint of pip), and a free port for 8000.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.docs.pages import ROOT, steps
from tests.docs.visiting import Visitor

TUTORIAL = ROOT / "docs" / "tutorial.md"
DISTRIBUTION = "django-distributed-counters"
SITE = "http://localhost:8000"
# What a reader does, in the order of the page.
ACT = re.compile(
    r"^```(?P<kind>console|python)\n(?P<block>.*?)^```$"
    r"|^\| Page \| Shows \|\n\|[-|]+\|\n(?P<pages>(?:\|[^\n]*\n)+)"
    r"|Choose `(?P<link>.*?)`, press \*\*(?P<then>.*?)\*\*"
    r"|log in as `(?P<name>.*?)` with the password `(?P<password>.*?)`"
    r"|^\| In \| Put \|\n\|[-|]+\|\n(?P<fields>(?:\|[^\n]*\n)+)",
    re.MULTILINE | re.DOTALL,
)
FILE = re.compile(r"# ([\w/.]+)(?:, (.*))?\n")
DURATION = re.compile(r"in \d+\.\d+s")
# These hold for the commands after them.
LASTING = ("cd ", ". ", "export ")
SECONDS = 300


class Reader:
    """Does what the tutorial says, beginning in an empty folder.

    Attributes:
        compared: how many outputs were as they are written.
    """

    def __init__(
        self,
        folder: Path,
        environment: Mapping[str, str],
    ) -> None:
        self.compared = 0
        self._folder = folder
        self._environment = {**environment, "PYTHONUNBUFFERED": "1"}
        self._lasting: list[str] = []
        self._server = ExitStack()
        self._visitor: Visitor | None = None

    def follow(self, page: str) -> None:
        """Do all of it. Raises AssertionError where the tutorial is wrong."""
        with self._server:
            for act in ACT.finditer(page):
                if act["kind"] == "python":
                    self._write(act["block"])
                elif act["kind"] == "console":
                    self._type(act["block"])
                else:
                    self._look(act)

    def run(self, command: str) -> str:
        """What a command prints, in the shell that the tutorial has come to."""
        finished = subprocess.run(
            ["sh", "-ec", self._script(command)],
            cwd=self._folder,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        assert finished.returncode == 0, f"{command}\n{finished.stdout}"
        return finished.stdout

    def _script(self, command: str) -> str:
        return "\n".join([*self._lasting, command])

    def _type(self, block: str) -> None:
        # Who types a command has ended the server.
        self._server.close()
        for command, printed in steps(block):
            typed = _checkout(command)
            if typed.endswith(" runserver"):
                self._visitor = Visitor(self._server.enter_context(self._serving(typed)))
                continue
            found = self.run(typed)
            # Where something else is installed, what pip says of its indexes is no matter.
            same = DURATION.sub("", found) == DURATION.sub("", printed)
            assert same or typed != command, f"{command}\n{found}"
            self.compared += bool(printed)
            if typed.startswith(LASTING):
                self._lasting.append(typed)

    def _write(self, block: str) -> None:
        found = FILE.match(block)
        assert found, f"a block of Python names no file: {block}"
        name, where = found.groups()
        if where is not None and where != "at the end":
            return
        here = Path(self.run("pwd").strip())
        with (here / name).open("w" if where is None else "a", encoding="utf-8") as file:
            file.write(block)

    def _look(self, act: re.Match[str]) -> None:
        visitor = self._visitor
        assert visitor is not None, f"no server is running: {act[0]}"
        if act["name"]:
            log_in(visitor, act["name"], act["password"])
        if act["link"]:
            visitor.open("/admin/django_counters/counter/")
            visitor.follow(act["link"])
            visitor.follow(act["then"])
        if act["fields"]:
            adjust(visitor, act["fields"])
        if act["pages"]:
            self._open(visitor, act["pages"])

    def _open(self, visitor: Visitor, table: str) -> None:
        """Open pages; what stands in backticks has to be there."""
        for address, shown in re.findall(r"^\| <(.*?)> \| (.*) \|$", table, re.MULTILINE):
            visitor.open(address.removeprefix(SITE))
            for text in re.findall(r"`(.*?)`", shown):
                assert text in visitor.text, f"{address} does not show {text}"
                self.compared += 1

    @contextmanager
    def _serving(self, command: str) -> Iterator[str]:
        """Where the server answers, which has a free port."""
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        server = subprocess.Popen(
            ["sh", "-ec", self._script(f"exec {command} {port}")],
            cwd=self._folder,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            _wait_for(server, port)
            yield f"http://localhost:{port}"
        finally:
            # runserver is two processes, of a group that nobody else is in. Not as Ctrl-C does it:
            # that is ignored by what a script has started in the background.
            os.killpg(server.pid, signal.SIGTERM)
            server.wait(SECONDS)


def log_in(visitor: Visitor, name: str, password: str) -> None:
    """Log in to the admin."""
    visitor.open("/admin/")
    visitor.fill("Username", name)
    visitor.fill("Password", password)
    visitor.press("Log in")
    assert "/login/" not in visitor.url, f"nobody can log in as {name}"


def adjust(visitor: Visitor, table: str) -> None:
    """Fill in the form that is open, and press its two buttons."""
    for label, text in re.findall(r"^\| (.*?) \| `(.*)` \|$", table, re.MULTILINE):
        visitor.fill(label, text)
    visitor.press("Preview")
    visitor.press("Confirm")


def _wait_for(server: subprocess.Popen[bytes], port: int) -> None:
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        assert server.poll() is None, f"the server ended with {server.returncode}"
        try:
            socket.create_connection(("localhost", port), timeout=1).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
    raise AssertionError(f"nobody answers at port {port}")


def main(arguments: list[str]) -> int:
    """Follow the tutorial in an empty folder; 0 if everything was as it says."""
    parser = argparse.ArgumentParser(prog="python -m tests.docs.tutorial", description=__doc__)
    parser.add_argument("--django", help="such as 6.1; without it, what pip takes")
    parser.add_argument("--python", type=Path, default=Path(sys.executable), metavar="PATH")
    options = parser.parse_args(arguments)
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="tutorial-") as name:
        folder = Path(name, "empty").resolve()
        folder.mkdir()
        reader = Reader(folder, _environment(Path(name), options))
        reader.follow(TUTORIAL.read_text(encoding="utf-8"))
        used = reader.run("python -c 'import django; print(django.__version__)'").strip()
        where = reader.run("python -c 'import django_counters; print(django_counters.__file__)'")
    assert where.startswith(str(folder)), f"the package was taken from {where}"
    assert reader.compared >= 13
    assert options.django is None or used.startswith(f"{options.django}."), used
    seconds = time.monotonic() - began
    print(f"Django {used}: {reader.compared} outputs and pages as written, {seconds:.0f} s")
    return 0


def _environment(outside: Path, options: argparse.Namespace) -> dict[str, str]:
    """``python3`` is the interpreter that was asked for, and pip is held to the Django.

    Nothing of this process leads Python or Django elsewhere.
    """
    leading = ("DJANGO_", "PYTHON", "COUNTERS_", "VIRTUAL_ENV", "DATABASE_URL", "REDIS_URL")
    rest = {name: value for name, value in os.environ.items() if not name.startswith(leading)}
    programs = outside / "programs"
    programs.mkdir()
    # A script and no link: a link to the Python of a virtual environment is outside of it.
    python3 = programs / "python3"
    python3.write_text(f'#!/bin/sh\nexec "{options.python}" "$@"\n', encoding="utf-8")
    python3.chmod(0o755)
    constraint = outside / "constraint.txt"
    held = f"Django~={options.django}.0" if options.django else ""
    constraint.write_text(f"{held}\n", encoding="utf-8")
    path = f"{programs}{os.pathsep}{os.environ['PATH']}"
    pip = {"PIP_CONSTRAINT": str(constraint), "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    return {**rest, **pip, "PATH": path, "PIP_ROOT_USER_ACTION": "ignore"}


def _checkout(command: str) -> str:
    if "pip install" not in command:
        return command
    wheel = f"--find-links ~/django_counters/dist {DISTRIBUTION}"
    assert command.endswith(wheel), f"the checkout is not what this installs: {command}"
    return f"{command.removesuffix(wheel)}'{ROOT}'"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
