"""What the cases ask of the library and of its database: statements and values."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

from django.db import DEFAULT_DB_ALIAS, connection, connections

from benchmarks.harness import Stored, WrongSum
from django_counters.models import Counter

ENDS_WITHIN = 60.0
OLDEST = "SELECT pg_snapshot_xmin(pg_current_snapshot())::text::bigint"


def increment(key: str) -> None:
    """As everybody calls it."""
    Counter.objects.increment(key)


def value(key: str) -> Stored:
    """What the library says of a counter."""
    return partial(Counter.objects.value, key)


def statement_of(action: Callable[[], object]) -> tuple[str, Any]:
    """The one statement that ``action`` executes, with its parameters."""
    seen: list[tuple[str, Any]] = []

    def note(execute: Callable[..., Any], sql: str, params: Any, *rest: Any) -> Any:
        seen.append((sql, params))
        return execute(sql, params, *rest)

    with connection.execute_wrapper(note):
        action()
    (only,) = seen
    return only


def execute(sql: str, using: str = DEFAULT_DB_ALIAS) -> int:
    """Execute one statement; the first number of its first row, zero where it has no rows."""
    with connections[using].cursor() as cursor:
        cursor.execute(sql)
        return int(cursor.fetchone()[0]) if cursor.description else 0


def let_others_end() -> None:
    """Wait until the rollup reaches all that is committed: autovacuum has transactions, too."""
    mine = execute("SELECT pg_current_xact_id()::text::bigint")
    deadline = time.monotonic() + ENDS_WITHIN
    while execute(OLDEST) <= mine:
        if time.monotonic() > deadline:
            raise WrongSum("somebody's transaction does not end, so the rollup would miss entries")
        time.sleep(0.01)
