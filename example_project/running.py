"""The runs of this checkout: another terminal finds where they count."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from example_project.bootstrap import folders
from example_project.bootstrap.services import DATA

# Where a run counts. Each run notes them in a file, and holds a lock on it for as long as it lives.
NAMES = ("DATABASE_URL", "REDIS_URL", DATA)


class NobodyRuns(Exception):
    """No example runs here: start it with python3 -m example_project."""

    def __str__(self) -> str:
        return "no example runs here: start it with python3 -m example_project"


@contextmanager
def findable() -> Iterator[None]:
    """Let another terminal find this run until the block ends."""
    note = _notes() / f"{os.getpid()}.json"
    unfinished = note.with_suffix("")
    known = {name: os.environ[name] for name in NAMES if name in os.environ}
    with open(unfinished, "w", opener=_privately) as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.write(json.dumps(known))
        file.flush()
        unfinished.rename(note)
        try:
            yield
        finally:
            note.unlink(missing_ok=True)


def latest() -> dict[str, str]:
    """The environment of the run that was started last; what dead runs have left is removed.

    Raises:
        NobodyRuns: there is none.
    """
    for note in sorted(_notes().glob("*.json"), key=_age):
        with suppress(FileNotFoundError), note.open() as file:
            if _is_held(file.fileno()):
                found: dict[str, str] = json.load(file)
                return found
            note.unlink()
    raise NobodyRuns


def _notes() -> Path:
    return folders.cache("runs")


def _privately(path: str, flags: int) -> int:
    # The address of a database may have a password.
    return os.open(path, flags, mode=0o600)


def _age(note: Path) -> float:
    with suppress(FileNotFoundError):
        return -note.stat().st_mtime
    return 0.0


def _is_held(number: int) -> bool:
    """Whether its run lives."""
    try:
        fcntl.flock(number, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    return False
