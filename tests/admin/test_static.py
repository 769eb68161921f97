"""The files that the page of one counter needs: ours, and those of others as they were released."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import pytest
from django.contrib.staticfiles.finders import find


@pytest.mark.parametrize("name", ["chart.js", "chart.css"])
def test_what_the_page_needs_is_there(name: str) -> None:
    assert find(f"django_counters/{name}")


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


def test_the_script_needs_no_more_than_the_policy_allows() -> None:
    for name in ("chart.js", "vendor/uplot/uPlot.iife.min.js"):
        path = find(f"django_counters/{name}")
        assert path
        text = Path(path).read_text()
        assert re.findall(r"\beval\(|new Function|innerHTML|setAttribute\(.style", text) == []
