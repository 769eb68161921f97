"""A process that is killed in the middle of a rollup. Imports Django only when it runs."""

from __future__ import annotations

import multiprocessing
import os
import signal
from multiprocessing.connection import Connection
from typing import Any

PATIENCE = 60


def killed_after(statement: int, database: str) -> str | None:
    """Kill a rollup after one of its statements, and return that; None if it had fewer."""
    context = multiprocessing.get_context("forkserver")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_stop_after, args=(statement, database, theirs))
    process.start()
    theirs.close()
    assert ours.poll(PATIENCE), "the rollup said nothing"
    sql: str | None = ours.recv()
    if sql is not None:
        assert process.pid is not None
        os.kill(process.pid, signal.SIGKILL)
    process.join(PATIENCE)
    assert process.exitcode == (0 if sql is None else -signal.SIGKILL)
    return sql


def _stop_after(statement: int, database: str, reached: Connection) -> None:
    """Roll up, and stand still for ever after one of the statements."""
    import django
    from django.db import connections

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "tests.settings")
    django.setup()
    connections["default"].settings_dict["NAME"] = database
    from django_counters.upkeep.rollup import rollup

    seen = 0

    def counting(execute: Any, sql: str, *rest: Any) -> Any:
        nonlocal seen
        result = execute(sql, *rest)
        seen += 1
        if seen == statement:
            reached.send(sql)
            signal.pause()
        return result

    with connections["default"].execute_wrapper(counting):
        rollup()
    reached.send(None)
