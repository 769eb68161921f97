"""What all processes of the regions share: where servers are, what is declared, and their books."""

from __future__ import annotations

import json
import os
from collections import Counter as Tally
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from struct import Struct
from typing import NamedTuple

WORLD = "COUNTERS_FAULTS_WORLD"
REGIONS = ("eu", "us", "ap")
NAMESPACES = ("likes", "hits", "sales", "views")
_BOOK = Struct("=4Q")


def far(region: str) -> str:
    """The alias by which others know a region."""
    return f"far_{region}"


def hot(namespace: str) -> str:
    """What all of all regions count."""
    return f"{namespace}:hot"


@dataclass(frozen=True)
class Orders:
    """What the processes have to do. They are told by a file.

    Attributes:
        number: the orders of before have a smaller one.
        peers: which other regions each region knows.
        counting: the regions in which somebody counts.
        over: whether all of them end.
    """

    number: int = 0
    peers: Mapping[str, list[str]] = field(default_factory=dict)
    counting: tuple[str, ...] = ()
    over: bool = False


@dataclass(frozen=True)
class World:
    """One run.

    Attributes:
        folder: where its processes write down what they did.
        seed: where all chance comes from, but that of the schedulers.
        urls: the databases by their aliases: each region, and how others reach it.
    """

    folder: str
    seed: int
    urls: Mapping[str, str]

    @classmethod
    def present(cls) -> World:
        """The one that this process belongs to."""
        return cls(**json.loads(os.environ[WORLD]))

    def exported(self) -> dict[str, str]:
        """What tells another process."""
        return {WORLD: json.dumps(asdict(self))}

    def path(self, name: str) -> Path:
        """A file of this run."""
        return Path(self.folder) / name

    def order(self, orders: Orders) -> None:
        """Write orders down."""
        fresh = self.path("orders.new")
        fresh.write_text(json.dumps(asdict(orders)))
        fresh.rename(self.path("orders"))

    def orders(self) -> Orders:
        """The present ones."""
        return Orders(**json.loads(self.path("orders").read_text()))

    def books(self) -> dict[str, Book]:
        """What each process that ever counted has written down, by its name."""
        files = self.path("books").iterdir()
        return {path.name: Book(*_BOOK.unpack(path.read_bytes())) for path in files}


class Book(NamedTuple):
    """What a process has begun and what was acknowledged: of its own counter, and of the hot one.

    Its file is written before each increment and after it, and is there also if the process dies.
    """

    begun: int = 0
    acknowledged: int = 0
    hot_begun: int = 0
    hot_acknowledged: int = 0

    def write(self, file: int) -> None:
        """Write it down."""
        os.pwrite(file, _BOOK.pack(*self), 0)


def opened(path: Path) -> int:
    """An empty book; its name is there once it can be read."""
    fresh = path.parents[1] / f"{path.name}.new"
    file = os.open(fresh, os.O_WRONLY | os.O_CREAT, 0o600)
    Book().write(file)
    fresh.rename(path)
    return file


class Said(NamedTuple):
    """Of each counter of a region: how much was begun, and how much was acknowledged."""

    begun: Tally[str]
    acknowledged: Tally[str]


def said(books: Mapping[str, Book], region: str, without: Iterable[str] = ()) -> Said:
    """What the processes of a region have written down, but those that are left out."""
    found = Said(Tally(), Tally())
    for name in books.keys() - set(without):
        namespace, _, place = name.partition("~")
        if place.startswith(region):
            book, own = books[name], f"{namespace}:{place}"
            found.begun[own] += book.begun
            found.begun[hot(namespace)] += book.hot_begun
            found.acknowledged[own] += book.acknowledged
            found.acknowledged[hot(namespace)] += book.hot_acknowledged
    return found
