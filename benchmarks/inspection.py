"""What the cases ask of the library: its statements and its values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.db import connection

from benchmarks.harness import expect
from django_counters.models import Counter


def holds(key: str, counted: int) -> None:
    """Raise `WrongSum` unless the counter has this value."""
    expect(key, Counter.objects.value(key), counted)


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
