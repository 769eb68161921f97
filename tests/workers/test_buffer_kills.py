"""Processes that are killed while they count in buffers with files: nothing is lost, or twice."""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import NamedTuple

import pytest

from django_counters.contrib.buffers.adopting import adopt
from django_counters.models import Counter, CounterIncident
from django_counters.testing import override_counters
from tests.redis.counting import eventually
from tests.workers.filled import MANY as FILLED
from tests.workers.filled import NO_DISK
from tests.workers.killed import BOOK
from tests.workers.running import PATIENCE, Crew

pytestmark = [pytest.mark.many_writers, pytest.mark.django_db(transaction=True)]
MANY = 100


def test_a_disk_that_is_full(crew: Crew, tmp_path: Path) -> None:
    """It goes on in memory, says so once, and each increment counts once. No signal ends it."""
    crew.keep("sharded", tmp_path / "disk")
    status = crew.start("tests.workers.filled").wait(PATIENCE)
    if status == NO_DISK:
        pytest.skip("this user may not mount a small disk: unshare -Urm, mount -t tmpfs")
    assert status == 0
    said = (crew.folder / "log0").read_text()
    assert said.count("a buffer has no file") >= 1
    keys = [f"hits:{number}-{'x' * 150}" for number in range(FILLED)]
    assert set(Counter.objects.values_of(keys).values()) == {3}


class Told(NamedTuple):
    """What the book of a process says."""

    begun: int
    acknowledged: int


def books(folder: Path) -> dict[str, Told]:
    """All books, by the names of their processes."""
    read = {path.name: path.read_bytes() for path in folder.iterdir()}
    return {name: Told(*BOOK.unpack(data)) for name, data in read.items() if data}


def is_empty(root: Path) -> bool:
    """Adopt what is left; whether there is nothing any more."""
    report = adopt()
    assert not report.strange
    return not [one for one in root.iterdir() if not one.name.startswith(".")]


def test_killed_at_any_moment(crew: Crew, tmp_path: Path) -> None:
    seed = int(os.environ.get("COUNTERS_FAULTS_SEED") or secrets.randbelow(10**6))
    print(f"COUNTERS_FAULTS_SEED={seed}")
    root, folder = tmp_path / "files", tmp_path / "books"
    folder.mkdir()
    crew.keep("exact", root)
    assert crew.start("tests.workers.killed", folder, MANY, seed).wait(3 * PATIENCE) == 0
    buffer = {"seconds": 1, "directory": str(root)}
    with override_counters(hits={"STRATEGY": "exact", "BUFFER": buffer}):
        # The server may still be ending transactions of the dead.
        assert eventually(lambda: is_empty(root), PATIENCE), "files are left"
        told = books(folder)
        found = Counter.objects.values_of([f"hits:{name}" for name in told])
    counted = {name: (book, found[f"hits:{name}"]) for name, book in told.items()}
    lost = {n: one for n, one in counted.items() if one[1] < one[0].acknowledged}
    twice = {n: one for n, one in counted.items() if one[1] > one[0].begun}
    assert (lost, twice) == ({}, {})
    assert len(told) >= MANY // 2
    assert sum(book.acknowledged for book in told.values()) > 1000
    assert not CounterIncident.objects.exists()
