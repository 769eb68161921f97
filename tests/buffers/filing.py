"""What tests of the files of buffers have in common."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from django_counters.contrib.buffers import process
from django_counters.contrib.buffers.adopting import Adopted
from django_counters.contrib.buffers.process import buffers as present
from django_counters.testing import override_counters
from tests.buffers.buffering import LATER


@pytest.fixture(name="inner", params=["exact", "sharded"])
def _inner(request: pytest.FixtureRequest) -> str:
    """The strategy behind the buffer."""
    return str(request.param)


@pytest.fixture(name="root", autouse=True)
def _root(inner: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The directory of the buffers. The thread adopts nothing by itself within a test."""
    monkeypatch.setattr(process, "adopt", lambda: Adopted(0, {}, {}))
    found = tmp_path / "counters"
    hits = {"STRATEGY": inner, "BUFFER": {**LATER, "directory": str(found)}}
    present.clear()
    with override_counters(hits=hits, seen={**hits, "PER": ["hour"], "TAGS": {"country": 10}}):
        yield found
    present.clear()


def files(root: Path) -> list[Path]:
    """All that is there."""
    return sorted(path for path in root.rglob("*") if path.is_file())


def die() -> None:
    """As if the process were killed: the system closes what it had, and its files are there."""
    for _, buffer in present.those_of():
        home = buffer.files._home if buffer.files else None
        buffer.begin()
        if home:
            home.release()


@contextmanager
def forked(*, waits: bool = False) -> Iterator[int | None]:
    """A block that the parent and a child run; the child ends with it, or when the parent does."""
    reads, writes = os.pipe()
    hears, tells = os.pipe()
    child = os.fork()
    if not child:
        status = 1
        try:
            os.close(writes)
            yield None
            os.write(tells, b"1")
            if waits:
                os.read(reads, 1)
            status = 0
        finally:
            os._exit(status)
    try:
        os.close(reads)
        # From its first moment on it has what it inherits.
        os.close(tells)
        assert os.read(hears, 1), "the child has failed"
        yield child
    finally:
        os.close(writes)
        os.close(hears)
        _, status = os.waitpid(child, 0)
        assert status == 0
