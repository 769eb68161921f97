"""What waits in files of buffers on this machine, of whomever they are."""

from __future__ import annotations

from datetime import timedelta
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command

from django_counters.metrics.facts import Filed, filed
from django_counters.models import Counter
from django_counters.write import adopting, mapped
from tests.write.filing import _root, die, files  # noqa: F401 - a fixture

pytestmark = pytest.mark.django_db(transaction=True)
NONE = Filed(0, 0, None)


@pytest.fixture(name="inner")
def _inner() -> str:
    return "exact"


def test_those_of_the_living_and_of_the_dead(root: Path) -> None:
    assert filed("default") == NONE
    Counter.objects.increment("hits:home")
    die()
    Counter.objects.increment("hits:home")
    Counter.objects.increment("hits:about", 5)
    found = filed("default")
    assert (found.files, found.sums) == (2, 3)
    assert found.lag is not None
    assert timedelta(0) <= found.lag < timedelta(minutes=10)
    assert filed("other") == NONE
    Counter.objects.flush_buffers()
    assert (filed("default").files, filed("default").sums) == (1, 1)
    call_command("counters", "upkeep", "buffers", stdout=StringIO())
    assert filed("default") == NONE


def test_nothing_is_counted_or_removed(root: Path) -> None:
    Counter.objects.increment("hits:home", 3)
    before = files(root)
    assert filed("default").sums == 1
    assert files(root) == before
    Counter.objects.flush_buffers()
    assert Counter.objects.get(key="hits:home").value == 3


def test_what_goes_while_it_is_looked_at(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A living process lands its file between the name and the bytes, or all of the directory."""
    Counter.objects.increment("hits:home")

    def late(path: Path) -> Any:
        path.unlink()
        return mapped.read(path)

    with monkeypatch.context() as patched:
        patched.setattr(adopting, "read", late)
        assert filed("default") == NONE
    monkeypatch.setattr(adopting, "_homes", lambda _: [root / ("0" * 32)])
    assert filed("default") == NONE
