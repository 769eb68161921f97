"""Many processes that count at the same time, each on a connection of its own."""

from __future__ import annotations

import multiprocessing
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Barrier
from threading import BrokenBarrierError

from benchmarks.harness import Sample, Side

STARTS_WITHIN = 120.0
ANSWERS_WITHIN = 60.0
NOT_STARTED = "could not start with the others"


@dataclass(frozen=True)
class Order:
    """Call ``action`` again and again for so many seconds. It must be a function of a module."""

    action: Callable[[], object]
    seconds: float


@dataclass(frozen=True)
class Done:
    """How many calls one writer made, and between which moments of the clock they all share."""

    calls: int
    started: float
    ended: float


def together(done: Sequence[Done]) -> Sample:
    """What all did, from the first call of the first one to the last answer of the last one."""
    wall = max(one.ended for one in done) - min(one.started for one in done)
    return Sample(sum(one.calls for one in done), wall)


class WriterFailed(Exception):
    """A writer ended with an error, or does not answer."""


class Writers:
    """The processes, as those who give them orders see them."""

    def __init__(self, pipes: list[Connection]) -> None:
        self._pipes = pipes

    def side(self, action: Callable[[], object], seconds: float) -> Side:
        """A side in which all writers call ``action``, timed by the clock on the wall."""

        def run() -> Sample:
            try:
                for pipe in self._pipes:
                    pipe.send(Order(action, seconds))
            except OSError:
                raise WriterFailed("a writer ended without a word") from None
            return together(self._answers(seconds + ANSWERS_WITHIN))

        return run

    def wait(self) -> None:
        """Return when all are connected."""
        self._answers(STARTS_WITHIN)

    def _answers(self, seconds: float) -> list[Done]:
        answers = [_answer(pipe, seconds) for pipe in self._pipes]
        failures = [answer for answer in answers if isinstance(answer, str)]
        if failures:
            # One failure keeps the others from starting: what it was says more than what they say.
            raise WriterFailed(f"a writer {min(failures, key=NOT_STARTED.__eq__)}")
        return [answer for answer in answers if isinstance(answer, Done)]


def _answer(pipe: Connection, seconds: float) -> Done | str:
    """What a writer did, or what became of it."""
    try:
        if not pipe.poll(seconds):
            return f"did not answer within {seconds:.0f} s"
        answer: Done | str = pipe.recv()
    except (EOFError, OSError):
        return "ended without a word"
    return answer


@contextmanager
def writers(count: int, database: str) -> Iterator[Writers]:
    """Start ``count`` processes that are connected to ``database``, and end them.

    One process loads what all need, then forks them: loading it in each took longer than what is
    measured with them.
    """
    context = multiprocessing.get_context("spawn")
    pairs = [context.Pipe() for _ in range(count)]
    pipes, theirs = [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    leader = context.Process(target=_lead, args=(database, theirs))
    try:
        leader.start()
        for pipe in theirs:
            pipe.close()
        team = Writers(pipes)
        team.wait()
        yield team
    finally:
        for pipe in pipes:
            pipe.close()  # a writer that waits for orders goes home
        leader.join(2.0)
        leader.terminate()


def _lead(database: str, pipes: Sequence[Connection]) -> None:
    """Fork a writer for each pipe, and wait until all are gone."""
    import django

    django.setup()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the one who gives orders ends us
    context = multiprocessing.get_context("fork")
    start = context.Barrier(len(pipes))
    processes = [
        context.Process(target=_work, args=(database, pipes, number, start), daemon=True)
        for number in range(len(pipes))
    ]
    for process in processes:
        process.start()
    # As it goes, it ends those that are stuck, because they are daemons.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    for pipe in pipes:
        pipe.close()
    for process in processes:
        process.join()


def _work(database: str, pipes: Sequence[Connection], number: int, start: Barrier) -> None:
    """Connect, then follow orders until the other end of the pipe is closed."""
    pipe = pipes[number]
    for other in pipes:
        if other is not pipe:
            other.close()  # the end of another writer has to be seen
    try:
        _connect(database)
        pipe.send(Done(0, 0.0, 0.0))
        while True:
            order: Order = pipe.recv()
            start.wait(ANSWERS_WITHIN)
            pipe.send(follow(order))
    except (EOFError, BrokenPipeError):
        return
    except BrokenBarrierError:
        _tell(pipe, NOT_STARTED)
    except Exception as error:
        start.abort()
        _tell(pipe, f"failed: {type(error).__name__}: {error}")


def _tell(pipe: Connection, failure: str) -> None:
    with suppress(OSError):  # nobody listens any more
        pipe.send(failure)


def _connect(database: str) -> None:
    from django.db import connection

    from benchmarks.database import use

    use(database)
    connection.ensure_connection()


def follow(order: Order) -> Done:
    """Do what was ordered, in this thread."""
    action = order.action
    calls = 0
    started = now = time.monotonic()
    deadline = started + order.seconds
    while now < deadline:
        action()
        calls += 1
        now = time.monotonic()
    return Done(calls, started, now)
