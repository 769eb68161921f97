"""The pictures that are kept, and the files that make up what they show."""

from __future__ import annotations

import hashlib
from itertools import product
from pathlib import Path
from typing import NamedTuple

from example_project.bootstrap.folders import ROOT

COMMAND = "python3 -m example_project.pictures"
FOLDER = ROOT / "docs" / "images"
# Beside them: of which files they were made.
MARK = FOLDER / "example.sha256"
PAGES = {"home": "/", "live": "/live/"}
# Width and height of the window.
DESK, TELEPHONE = (1280, 900), (390, 844)
SCHEMES = ("light", "dark")
_PARTS = (
    "templates/base.html",
    "templates/live/*.html",
    "static/style.css",
    "static/live.js",
    "static/presses.js",
)


class Picture(NamedTuple):
    """What is to be seen: a page of the example in a window, light or dark."""

    page: str
    width: int
    height: int
    scheme: str

    @property
    def path(self) -> Path:
        """Where it is kept."""
        return FOLDER / f"{self.page}-{self.width}-{self.scheme}.png"

    @property
    def is_whole(self) -> bool:
        """Whether all of the page is shown, and not just its beginning."""
        return (self.width, self.height) == DESK


def pictures() -> list[Picture]:
    """All of them."""
    return [
        Picture(page, *size, scheme)
        for page, size, scheme in product(PAGES, (DESK, TELEPHONE), SCHEMES)
    ]


def digest(home: Path = ROOT / "example_project") -> str:
    """Of all files that make up the pages: another one means that the pictures are old."""
    found = hashlib.sha256()
    for path in sorted(path for part in _PARTS for path in home.glob(part)):
        found.update(f"{path.relative_to(home)}\n".encode() + path.read_bytes())
    return found.hexdigest()
