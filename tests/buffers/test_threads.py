"""Threads that land buffers: which signals they take, and what becomes of one that fails."""

from __future__ import annotations

import signal
import time
from queue import SimpleQueue

import pytest

from django_counters.contrib.buffers.threads import Worker, begin_thread
from tests.redis.counting import eventually

PATIENCE = 60


def mask() -> set[int]:
    return set(signal.pthread_sigmask(signal.SIG_BLOCK, ()))


def test_what_is_asked_of_the_process_is_asked_of_its_main_thread() -> None:
    """Python calls handlers there: one that waits hears of nothing that another thread takes."""
    told, before = SimpleQueue[set[int]](), mask()
    begin_thread(lambda: told.put(mask()))
    blocked = told.get(timeout=PATIENCE)
    assert blocked >= {signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1}
    assert not blocked & {signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT}
    assert mask() == before


def test_signals_are_taken_again_where_no_thread_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    before = mask()

    def none(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr("_thread.start_new_thread", none)
    with pytest.raises(RuntimeError, match="can't start"):
        begin_thread(print)
    assert mask() == before


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_one_that_fails_is_followed_by_another() -> None:
    done = SimpleQueue[int]()
    turns = [1, 2]

    def due() -> float | None:
        return time.monotonic() if turns else None

    def work() -> None:
        if not turns:
            # It looks now and then, whatever is due.
            return
        done.put(turn := turns.pop(0))
        if turn == 1:
            raise ZeroDivisionError

    worker = Worker("tests", due, work)
    assert worker.wake()
    assert done.get(timeout=PATIENCE) == 1
    assert eventually(lambda: worker.wake() and not done.empty(), PATIENCE)
    assert done.get(timeout=PATIENCE) == 2
