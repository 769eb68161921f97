"""Processes that are killed in the middle of their work, each after another statement."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from multiprocessing.connection import Connection
from typing import Any

from django.db import connection, connections

from django_counters.ledger.horizon import SqlHorizon
from django_counters.ledger.upkeep import maintain
from tests.concurrency.crowd import FORKS

PATIENCE = 60
HOUR = timedelta(hours=1)
Kill = Callable[[int], str | None]


@contextmanager
def victims(work: Callable[[], object]) -> Iterator[Kill]:
    """A function that kills a process after the statement of a number, and returns that statement.

    It returns None if the work had fewer. All are forks of one process that knows the settings
    already, so that none of them has to begin from nothing.
    """
    ours, theirs = FORKS.Pipe()
    database = str(connection.settings_dict["NAME"])
    mother = FORKS.Process(target=_bear, args=(database, theirs, work))
    mother.start()
    theirs.close()

    def told() -> Any:
        assert ours.poll(PATIENCE), "the victim said nothing"
        return ours.recv()

    def kill(statement: int) -> str | None:
        ours.send(statement)
        pid, sql = told()
        if sql is not None:
            os.kill(pid, signal.SIGKILL)
        assert told() == (0 if sql is None else signal.SIGKILL)
        return str(sql) if sql is not None else None

    try:
        yield kill
    finally:
        with suppress(OSError):
            ours.send(0)
        mother.join(PATIENCE)


def _bear(database: str, pipe: Connection, work: Callable[[], object]) -> None:
    """Fork a child for each number that is asked for; tell what it died of."""
    connections["default"].settings_dict["NAME"] = database
    while statement := pipe.recv():
        pid = os.fork()
        if pid == 0:
            _stop_after(statement, pipe, work)
            os._exit(0)
        pipe.send(os.waitpid(pid, 0)[1])


def _stop_after(statement: int, pipe: Connection, work: Callable[[], object]) -> None:
    """Work, and stand still for ever after one of the statements."""
    seen = 0

    def counting(execute: Any, sql: str, *rest: Any) -> Any:
        nonlocal seen
        result = execute(sql, *rest)
        seen += 1
        if seen == statement:
            pipe.send((os.getpid(), sql))
            signal.pause()
        return result

    with connections["default"].execute_wrapper(counting):
        work()
    pipe.send((os.getpid(), None))


def fold() -> None:
    """A rollup of the ledger alone."""
    SqlHorizon("default").fold()


def seal_and_drop() -> None:
    """What the first run seals the second one drops."""
    for _ in range(2):
        maintain(width=HOUR, keep=timedelta(0))
