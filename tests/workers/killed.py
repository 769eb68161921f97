"""Processes that count in buffers with files until they are killed: at named points, and at any.

Arguments: the folder of their books, how many, a seed. A book has two numbers: how many increments
a process began, and how many were acknowledged. Two in five are forked from a process that counts.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from struct import Struct
from typing import Any

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.workers.settings")
django.setup()

from django_counters.contrib import buffers  # noqa: E402
from django_counters.contrib.buffers import adopting, pages, process  # noqa: E402
from django_counters.contrib.buffers import files as writing  # noqa: E402
from django_counters.contrib.buffers.buffer import Buffer  # noqa: E402
from django_counters.models import Counter  # noqa: E402

BOOK = Struct("=QQ")
AT_ONCE = 4
# Living processes adopt all the time.
process.ADOPTING = 0.1
# What a process may be in the middle of, and whether it has done it.
POINTS: tuple[tuple[Any, str, bool], ...] = (
    (writing.Home, "__init__", True),
    (writing.File, "_grow", True),
    (writing.File, "__init__", True),
    (writing.File, "write", True),
    (writing.File, "forget", False),
    (writing.File, "forget", True),
    (Buffer, "_land_parted", False),
    (Buffer, "_land_parted", True),
    (pages.InDatabase, "land", False),
    (pages.InDatabase, "land", True),
    (adopting, "_land", False),
    (adopting, "_land", True),
    (adopting, "_tidy", True),
)


def deadly(owner: Any, name: str, *, done: bool, after: int) -> None:
    """Die when something was done so many times, or is to be done."""
    present: Callable[..., Any] = getattr(owner, name)
    calls = 0

    def dying(*arguments: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls < after:
            return present(*arguments)
        found = present(*arguments) if done else None
        os.kill(os.getpid(), signal.SIGKILL)
        return found

    setattr(owner, name, dying)


def count(book: Path, rest: float) -> None:
    """Count until the end comes, in a handle and by the manager."""
    number = os.open(book, os.O_WRONLY | os.O_CREAT, 0o600)
    handle = buffers.handle(f"hits:{book.name}")
    begun = 0
    while True:
        begun += 1
        os.pwrite(number, BOOK.pack(begun, begun - 1), 0)
        if begun % 3:
            handle.increment()
        else:
            Counter.objects.increment(f"hits:{book.name}")
        os.pwrite(number, BOOK.pack(begun, begun), 0)
        if begun % 50 == 0:
            # Other names, so that the file grows.
            Counter.objects.increment(f"hits:{book.name}-{begun}-{'x' * 150}")
        time.sleep(rest)


def live(folder: Path, name: str, chance: random.Random) -> None:
    """Count as one process, or as two of which one is the child of the other."""
    inherits = chance.random() < 0.4
    if chance.random() < 0.6:
        owner, what, done = chance.choice(POINTS)
        deadly(owner, what, done=done, after=chance.randint(1, 4))
    rest = chance.choice((0.0, 0.0005, 0.002))
    if not inherits:
        count(folder / name, rest)
    parent = os.open(folder / f"{name}p", os.O_WRONLY | os.O_CREAT, 0o600)
    handle = buffers.handle(f"hits:{name}p")
    os.pwrite(parent, BOOK.pack(100, 0), 0)
    for done_ in range(1, 101):
        handle.increment()
        os.pwrite(parent, BOOK.pack(100, done_), 0)
    if os.fork():
        # The parent goes on counting, in its own files.
        count(folder / f"{name}q", rest)
    count(folder / name, rest)


def main(folder: Path, many: int, seed: int) -> None:
    """Let all of them live and die, a few at once."""
    chance = random.Random(seed)
    groups: dict[int, float] = {}
    begun = 0
    while begun < many or groups:
        while begun < many and len(groups) < AT_ONCE:
            begun += 1
            own = random.Random(chance.random())
            group = os.fork()
            if not group:
                os.setpgid(0, 0)
                live(folder, f"w{begun}", own)
            # Here, too: else it may be ended before it has made its group, and would not be.
            os.setpgid(group, group)
            groups[group] = time.monotonic() + chance.uniform(0.1, 0.7)
        for group, until in list(groups.items()):
            if time.monotonic() > until:
                end(group)
                del groups[group]
        time.sleep(0.01)


def end(group: int) -> None:
    """Kill what is left of one, child and parent in one moment."""
    with suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)
    os.waitpid(group, 0)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
