"""Whatever comes between two steps of a buffer, a signal or a finalizer: nothing is lost of it.

Python runs handlers of signals, and finalizers, where functions begin and end. Each of these
moments is tried.
"""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from django.db import connections

from django_counters import write
from django_counters.contrib import buffers
from django_counters.contrib.buffers.buffer import Buffer
from django_counters.contrib.buffers.process import buffers as present
from django_counters.contrib.buffers.threads import Worker
from django_counters.models import Counter, CounterIncident
from django_counters.testing import override_counters
from tests.buffers.buffering import LATER, landed

pytestmark = [
    pytest.mark.rare,
    pytest.mark.django_db(transaction=True),
    # Python drops what a generator raises while it is thrown away, and tells of it.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
HERE = (*buffers.__path__, *write.__path__)


@pytest.fixture(autouse=True, params=["memory", "files"])
def _declared(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[None]:
    """In memory, and with a file."""
    wait: dict[str, Any] = dict(LATER)
    if request.param == "files":
        wait["directory"] = str(tmp_path)
    present.clear()
    with override_counters(hits={"BUFFER": wait}, full={"BUFFER": {**wait, "most": 1}}):
        yield
    present.clear()


class Moments:
    """Does something in one of the moments in which functions of buffers begin and end."""

    def __init__(self, number: int, act: Callable[[], None], without: str) -> None:
        self.left = number
        self._act = act
        self._without = without

    def __call__(self, frame: FrameType, event: str, _: object) -> Any:
        frame.f_trace_lines = False
        code = frame.f_code
        if event in ("call", "return") and code.co_filename.startswith(HERE):
            self.left -= code.co_name != self._without
            if not self.left:
                self.left = -1
                self._act()
        return self


@contextmanager
def disturbed(number: int, act: Callable[[], None], without: str = "") -> Iterator[Moments]:
    """A block in which something comes between; but for the function that others call."""
    found, before = Moments(number, act, without), sys.gettrace()
    sys.settrace(found)
    try:
        yield found
    finally:
        sys.settrace(before)


def interrupt() -> None:
    raise KeyboardInterrupt


def landing_threads() -> int:
    return sum(one.name.startswith("django_counters-") for one in threading.enumerate())


def buffer_of(key: str) -> Buffer:
    Counter.objects.increment(key)
    (found,) = [one for _, one in present.those_of() if key in one.entries]
    return found


@pytest.fixture
def _alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread finds nothing that is due: SQLite in memory lets nobody count beside it."""
    monkeypatch.setattr(present, "_landing_in", lambda _: [])


@pytest.mark.usefixtures("_alone")
def test_a_landing_is_interrupted() -> None:
    found, done = buffer_of("hits:home"), 1
    for number in count(1):
        Counter.objects.increment("hits:home")
        done += 1
        try:
            with disturbed(number, interrupt) as moments:
                found.flush()
        except KeyboardInterrupt:
            waits = found.amounts().get("hits:home", 0)
            assert (found.due() is not None) >= bool(waits)
            assert Counter.objects.value("hits:home") == done
        if moments.left > 0:
            break
    assert number > 20, "all of it was tried"
    assert (landed(), found.amounts()) == (done, {})


@pytest.mark.usefixtures("_alone")
@pytest.mark.parametrize("space", ["hits", "full"])
def test_what_is_committed_is_kept_whoever_is_interrupted(space: str) -> None:
    found, keys = buffer_of(f"{space}:z"), [f"{space}:{name}" for name in "ab"]
    for number in count(1):
        try:
            # Before it begins, nobody can know of it.
            with disturbed(number, interrupt, without="put") as moments:
                found.put({(key, None): 1 for key in keys})
        except KeyboardInterrupt:
            pass
        buffers.flush()
        for one in CounterIncident.objects.all():
            # That one was being counted by itself: it may be counted, or not.
            assert (one.kind, len(one.detail["amounts"])) == ("unknown", 1)
            (key,) = one.detail["amounts"]
            Counter.objects.increment(key, number - landed(key), immediately=True)
            one.delete()
        assert {landed(key) for key in keys} == {number}
        if moments.left > 0:
            break
    assert number > 10, "all of it was tried"


def test_whoever_is_disturbed_by_one_that_counts(monkeypatch: Any) -> None:
    """A handler of a signal, or a finalizer, that counts in the same buffer."""
    ended, done = list[bool](), [0]
    # Each thread that is started ends at once: hundreds would land what later tests count.
    monkeypatch.setattr(Worker, "_run", lambda _: None)
    threads = landing_threads()

    def work() -> None:
        try:
            for number in count(1):
                # Its thread is started, too.
                monkeypatch.setattr(present, "_workers", {})
                with disturbed(number, act) as moments:
                    Counter.objects.increment("hits:home")
                    present.flush()
                done[0] += 1
                if moments.left > 0:
                    break
            ended.append(number > 20)
        finally:
            connections.close_all()

    def act() -> None:
        done[0] += 1
        Counter.objects.increment("hits:home")

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    before = -1
    while thread.is_alive() and done[0] > before:
        before = done[0]
        thread.join(30)
    assert ended == [True], "it waits for itself"
    present.flush()
    assert landed() == done[0]
    assert landing_threads() == threads


def test_no_garbage_is_collected_under_the_lock() -> None:
    found, stuck = buffer_of("hits:home"), []

    class Cyclic:
        def __init__(self) -> None:
            self.me = self

        def __del__(self) -> None:
            if found.lock.locked():
                stuck.append(1)

    interval, before = found.interval, gc.get_threshold()
    keys = [f"hits:{number}" for number in range(140)]
    # Now: nothing else is made between the garbage and the lock.
    cells = [interval.file.write(key) or 0 if interval.file else 0 for key in keys]
    try:
        for number, (key, cell) in enumerate(zip(keys, cells, strict=True)):
            if not number % 20:
                gc.collect()
                gc.set_threshold(number // 20 + 1, 1000, 1000)
            Cyclic()
            assert found._put(key, 1, interval, cell, None)
            Cyclic()
            assert found.add(key, 1)
    finally:
        gc.set_threshold(*before)
    assert not stuck
    assert found.flush() == 141
    assert landed("hits:139") == 2
