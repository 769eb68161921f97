"""Processes that are killed while they count in buffers with files: nothing is lost, or twice."""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import NamedTuple

import pytest

from django_counters.intake.flush import flush
from django_counters.models import Counter, CounterIncident
from django_counters.testing import override_counters
from django_counters.write.adopting import adopt
from tests.stores.redis.counting import eventually
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


@pytest.mark.parametrize("strategy", ["sharded", "cached"])
def test_killed_at_any_moment(crew: Crew, tmp_path: Path, strategy: str) -> None:
    seed = int(os.environ.get("COUNTERS_FAULTS_SEED") or secrets.randbelow(10**6))
    print(f"COUNTERS_FAULTS_SEED={seed}")
    root, folder = tmp_path / "files", tmp_path / "books"
    folder.mkdir()
    crew.keep(strategy, root)
    assert crew.start("tests.workers.killed", folder, MANY, seed).wait(3 * PATIENCE) == 0
    buffer = {"seconds": 1, "directory": str(root)}
    options = {"timeout": 10} if strategy == "cached" else {}
    with override_counters(hits={"STRATEGY": strategy, "BUFFER": buffer, "OPTIONS": options}):
        # The server may still be ending transactions of the dead.
        assert eventually(lambda: is_empty(root), PATIENCE), "files are left"
        if strategy == "cached":
            flush()
        told = books(folder)
        found = Counter.objects.values_of(["hits:hot", *(f"hits:{name}" for name in told)])
    counted = {name: (book, found[f"hits:{name}"]) for name, book in told.items()}
    lost = {n: one for n, one in counted.items() if one[1] < one[0].acknowledged}
    twice = {n: one for n, one in counted.items() if one[1] > one[0].begun}
    assert (lost, twice) == ({}, {})
    least = sum(book.acknowledged for book in told.values())
    most = sum(book.begun for book in told.values())
    assert least <= found["hits:hot"] <= most
    assert len(told) >= MANY // 2
    assert least > 1000
    assert (tmp_path / "merged").stat().st_size > 3, "nobody landed for others"
    assert not CounterIncident.objects.exists()
