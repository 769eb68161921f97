"""The rollup that runs beside the site, and work in a thread in general."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

import pytest

from django_counters.models import Counter, CounterDelta, CounterShard
from django_counters.testing import override_counters
from example_project.background import meanwhile
from example_project.folding import rolling_up
from example_project.settings import COUNTERS
from example_project.tally import ORDERS, Tally

OFTEN = 0.01
LARGEST = 2**63 - 1


@pytest.fixture(autouse=True)
def _as_the_example_declares_it(transactional_db: None) -> Iterator[None]:
    with override_counters(**COUNTERS):
        yield


def wait_until(condition: Callable[[], bool]) -> None:
    """Return when it is true, or fail."""
    ends = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < ends, "it did not come true"
        time.sleep(OFTEN)


def rollups() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "the rollup"]


@pytest.mark.postgres
def test_it_folds_what_waits_and_ends_with_the_block() -> None:
    tally = Tally()
    with rolling_up(tally, every=OFTEN):
        for _ in range(2):
            Counter.objects.increment("downloads:post-1", 3)
            wait_until(lambda: not CounterShard.objects.exists())
        assert len(rollups()) == 1
    assert rollups() == []
    assert Counter.objects.read("downloads:post-1").total == 6
    assert tally.sums() == {"folded": 2, "entries": 0}


@pytest.mark.postgres
def test_it_folds_the_entries_of_the_ledger() -> None:
    tally = Tally()
    with rolling_up(tally, every=OFTEN):
        for _ in range(3):
            Counter.objects.increment(ORDERS)
        wait_until(lambda: Counter.objects.read(ORDERS).total == 3)
    assert CounterDelta.objects.count() == 3
    assert tally.sums() == {"folded": 0, "entries": 3}


@pytest.mark.postgres
def test_a_total_that_cannot_take_it_fails_the_run() -> None:
    Counter.objects.increment("downloads:post-1", LARGEST)
    CounterShard._base_manager.create(key="downloads:post-1", shard=1, value=LARGEST)
    tally = Tally()
    with rolling_up(tally, every=OFTEN):
        wait_until(lambda: tally.sums()["failures"] > 0)
    assert tally.failures()[0] == "the rollup: downloads:post-1 does not fit"


def test_work_that_breaks_off_fails_the_run(capsys: pytest.CaptureFixture[str]) -> None:
    def work(stop: threading.Event) -> None:
        raise ZeroDivisionError(f"{stop.is_set()}")

    tally = Tally()
    with meanwhile(work, "the work", tally):
        wait_until(lambda: bool(tally.failures()))
    assert tally.failures() == ["the work broke off: ZeroDivisionError('False')"]
    assert "Traceback" in capsys.readouterr().err
