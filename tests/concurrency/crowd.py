"""A crowd of processes or threads that starts at once, and whose every failure is reported."""

from __future__ import annotations

import multiprocessing
import os
import threading
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from multiprocessing.synchronize import Barrier
from typing import Any, TypeVar

from django.db import connection, connections

_Result = TypeVar("_Result")
PATIENCE = 300


def processes(count: int, work: Callable[..., Any], *arguments: Any) -> list[Any]:
    """Run ``work(number, *arguments)`` in ``count`` processes on the test database.

    Raises:
        AssertionError: one of them failed; the message has its traceback.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.concurrency.crowd"])
    barrier = context.Barrier(count)
    answers: Any = context.SimpleQueue()
    name = str(connection.settings_dict["NAME"])
    crowd = [
        context.Process(target=_process, args=(number, name, barrier, answers, work, arguments))
        for number in range(count)
    ]
    for process in crowd:
        process.start()
    results = [answers.get() for _ in crowd]
    for process in crowd:
        process.join(PATIENCE)
        process.close()
    failures = [failure for failure, _ in results if failure]
    assert not failures, f"{len(failures)} of {count} failed, the first:\n{failures[0]}"
    return [result for _, result in results]


def _process(
    number: int,
    database: str,
    barrier: Barrier,
    answers: Any,
    work: Callable[..., Any],
    arguments: tuple[Any, ...],
) -> None:
    import django

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")
    django.setup()
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
