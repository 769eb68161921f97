"""What all processes of a scene share: its description, its folder, and a few numbers."""

from __future__ import annotations

import ctypes
import json
import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from multiprocessing.sharedctypes import RawArray
from pathlib import Path
from typing import Any

from tests.faults.cells import COUNTRIES

SCENE = "COUNTERS_FAULTS_SCENE"
HOT = "plain:hot"


@dataclass(frozen=True)
class Scene:
    """One run.

    Attributes:
        folder: where its processes write down what they did.
        seed: where all chance comes from, but that of the schedulers.
        writers: how many processes count.
        flushers: how many processes flush, each of which kills itself and is started again.
        mutant: what is broken in the protocol; "" for nothing.
        direct: the URL of Redis for the last flushes; "" for the same.
        careless: commits do not wait for the log, so nothing is counted in the database itself.
    """

    folder: str
    seed: int
    writers: int = 3
    flushers: int = 2
    mutant: str = ""
    direct: str = ""
    careless: bool = False

    @classmethod
    def present(cls) -> Scene:
        """The scene that this process belongs to."""
        return cls(**json.loads(os.environ[SCENE]))

    def exported(self) -> dict[str, str]:
        """What tells another process."""
        return {SCENE: json.dumps(asdict(self))}

    def path(self, name: str) -> Path:
        """A file of the scene."""
        return Path(self.folder) / name


class Log:
    """A file of lines, each of which is there once it is written, also if its process dies."""

    def __init__(self, path: Path) -> None:
        self._number = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def write(self, line: str) -> None:
        """Append one line, or several."""
        os.write(self._number, f"{line}\n".encode())


def lines(paths: Iterable[Path]) -> list[str]:
    """All lines of some files."""
    return [line for path in sorted(paths) for line in path.read_text().splitlines()]


class Board:
    """Numbers in memory that forks share. Each process writes to its own places only.

    A writer has one for each country.
    """

    def __init__(self, writers: int) -> None:
        self.attempted: Any = RawArray(ctypes.c_int64, writers * len(COUNTRIES))
        self.acknowledged: Any = RawArray(ctypes.c_int64, writers * len(COUNTRIES))
        self._over: Any = RawArray(ctypes.c_int64, 1)

    def place(self, writer: int, country: str) -> int:
        """Where a writer counts what it does for a country."""
        return writer * len(COUNTRIES) + COUNTRIES.index(country)

    def sums(self) -> list[str]:
        """How many were attempted and acknowledged, a line for each country."""
        step = len(COUNTRIES)
        return [
            f"{sum(self.attempted[at::step])} {sum(self.acknowledged[at::step])} {country}"
            for at, country in enumerate(COUNTRIES)
        ]

    def end(self) -> None:
        """Let nobody begin anything new."""
        self._over[0] = 1

    @property
    def is_over(self) -> bool:
        """Whether it has ended."""
        return bool(self._over[0])
