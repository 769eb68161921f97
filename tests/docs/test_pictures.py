"""The pictures of the example: never older than the pages, small, and shown."""

from __future__ import annotations

import shutil
import struct
from pathlib import Path

import pytest

from example_project.bootstrap.folders import ROOT
from example_project.pictures import kept

MOST_BYTES = 150_000
CHANGES = ("templates/live/race.html", "templates/live/new.html", "static/style.css")
# Where the header of a PNG has the width and the height.
_SIZE = slice(16, 24)


def test_they_are_of_the_pages_of_now() -> None:
    made_of = kept.MARK.read_text().strip()
    assert made_of == kept.digest(), f"older than the pages, so take them anew: {kept.COMMAND}"


@pytest.mark.parametrize("change", CHANGES)
def test_another_page_makes_them_old(tmp_path: Path, change: str) -> None:
    for folder in ("templates", "static"):
        shutil.copytree(ROOT / "example_project" / folder, tmp_path / folder)
    assert kept.digest(tmp_path) == kept.digest()
    with (tmp_path / change).open("a") as file:
        file.write("<p>new</p>")
    assert kept.digest(tmp_path) != kept.digest()


@pytest.mark.parametrize("picture", kept.pictures(), ids=lambda picture: picture.path.stem)
def test_each_is_small_and_shown(picture: kept.Picture) -> None:
    found = picture.path.read_bytes()
    width, height = struct.unpack(">II", found[_SIZE])
    assert width == picture.width
    assert height >= picture.height
    assert len(found) < MOST_BYTES
    assert picture.path.name in (ROOT / "docs" / "example.md").read_text(encoding="utf-8")
