"""A crowd of processes or threads that starts at once, and whose every failure is reported."""

from __future__ import annotations

import importlib
import multiprocessing
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from multiprocessing.synchronize import Barrier
from typing import Any, TypeVar

from django.db import connection, connections

_Result = TypeVar("_Result")
PATIENCE = 300
# Its processes are forks of one that knows the app already.
FORKS = multiprocessing.get_context("forkserver")
PRELOADED = ["tests.concurrency.mother"]
FORKS.set_forkserver_preload(PRELOADED)


def processes(count: int, work: Callable[..., Any], *arguments: Any) -> list[Any]:
    """Run ``work(number, *arguments)`` in ``count`` processes on the test database.

    Raises:
        AssertionError: one of them failed; the message has its traceback.
    """
    barrier = FORKS.Barrier(count)
    answers: Any = FORKS.SimpleQueue()
    name = str(connection.settings_dict["NAME"])
    crowd = [
        FORKS.Process(
            target=_process, args=(_Mother(), number, name, barrier, answers, work, arguments)
        )
        for number in range(count)
    ]
    for process in crowd:
        process.start()
    try:
        results = _told(crowd, answers)
        for process in crowd:
            process.join(PATIENCE)
    finally:
        for process in crowd:
            process.kill()
            process.join()
            process.close()
    failures = [failure for failure, _ in results if failure]
    assert not failures, f"{len(failures)} of {count} failed, the first:\n{failures[0]}"
    return [result for _, result in results]


class _Mother:
    """Unpickled first: a process knows the app before it looks at its work, preloaded or not."""

    def __reduce__(self) -> tuple[Callable[[str], object], tuple[str]]:
        return importlib.import_module, ("tests.concurrency.mother",)


def _told(crowd: Sequence[Any], answers: Any) -> list[Any]:
    """The answer of each; a process that was killed has none, and nobody waits for it."""
    results: list[Any] = []
    deadline = time.monotonic() + PATIENCE
    while len(results) < len(crowd):
        ended = not any(process.is_alive() for process in crowd)
        if answers._reader.poll(0 if ended else 1):
            results.append(answers.get())
        else:
            codes = [process.exitcode for process in crowd]
            assert not ended, f"no answer; they have ended with {codes}"
            told = [failure for failure, _ in results if failure]
            assert time.monotonic() < deadline, f"no answer in {PATIENCE} s; {codes}; {told}"
    return results


def _process(
    _mother: object,
    number: int,
    database: str,
    barrier: Barrier,
    answers: Any,
    work: Callable[..., Any],
    arguments: tuple[Any, ...],
) -> None:
    connections["default"].settings_dict["NAME"] = database
    try:
        connections["default"].ensure_connection()
        barrier.wait(PATIENCE)
        answers.put(("", work(number, *arguments)))
    except BaseException:
        barrier.abort()
        answers.put((traceback.format_exc(), None))
    finally:
        connections.close_all()


@dataclass
class Threads:
    """Threads with a connection each, that start at once."""

    count: int
    barrier: threading.Barrier = field(init=False)

    def __post_init__(self) -> None:
        self.barrier = threading.Barrier(self.count)

    def run(self, work: Callable[[int], _Result]) -> list[_Result]:
        """Run ``work(number)`` in every thread; the first failure is raised."""
        with ThreadPoolExecutor(self.count) as pool:
            futures = [pool.submit(self._one, work, number) for number in range(self.count)]
            return [future.result(PATIENCE) for future in futures]

    def _one(self, work: Callable[[int], _Result], number: int) -> _Result:
        try:
            connection.ensure_connection()
            self.barrier.wait(PATIENCE)
            return work(number)
        finally:
            connection.close()


def at_once(work: Callable[[int], _Result], count: int) -> list[_Result]:
    """Run ``work(number)`` in as many threads, none of which has a connection of its own."""
    barrier = threading.Barrier(count)

    def one(number: int) -> _Result:
        barrier.wait(PATIENCE)
        return work(number)

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(one, range(count)))


def in_turns(work: Callable[[int], _Result], count: int) -> list[_Result]:
    """Run ``work(number)`` in no more threads than any server has connections for."""
    crowd = 16
    shares = Threads(crowd).run(lambda first: [work(n) for n in range(first, count, crowd)])
    return [result for share in shares for result in share]
