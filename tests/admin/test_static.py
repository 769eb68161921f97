"""The files that the pages need: ours, and those of others as they were released."""

from __future__ import annotations

import hashlib
from pathlib import Path

from django.contrib.staticfiles.finders import find


def test_the_vendored_files_are_those_of_their_release() -> None:
    script = find("django_counters/vendor/uplot/uPlot.iife.min.js")
    assert script
    folder = Path(script).parent
    name, address, integrity, *sums = (folder / "VERSION").read_text().splitlines()
    assert name.startswith("uPlot ")
    assert name.removeprefix("uPlot ") in address
    assert f"(v{name.removeprefix('uPlot ')})" in Path(script).read_text()[:80]
    assert integrity.startswith("sha512-")
    listed = {file: digest for digest, file in (line.split() for line in sums)}
    present = {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.iterdir()
        if path.name != "VERSION"
    }
    assert listed == present
    assert {"LICENSE", "uPlot.iife.min.js", "uPlot.min.css"} == set(present)
    assert "MIT" in (folder / "LICENSE").read_text()
