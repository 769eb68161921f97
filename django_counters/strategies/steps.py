"""Work that asks others now and then, written once for code that waits and for code that awaits.

A generator yields what it needs: a request to a cache of pending increments, or a function that
talks to the database. Whoever drives it sends the answers back, and throws errors in.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from typing import Any, TypeVar

from asgiref.sync import sync_to_async

_T = TypeVar("_T")
Steps = Generator[Any, Any, _T]


def run(steps: Steps[_T], send: Callable[[Any], Any]) -> _T:
    """Take all steps, one after the other; ``send`` answers what is not a function."""
    try:
        step = next(steps)
        while True:
            try:
                answer = step() if callable(step) else send(step)
            except Exception as error:
                step = steps.throw(error)
            else:
                step = steps.send(answer)
    except StopIteration as end:
        value: _T = end.value
        return value


async def arun(steps: Steps[_T], send: Callable[[Any], Awaitable[Any]]) -> _T:
    """`run` for async code: functions run in Django's thread for synchronous code."""
    try:
        step = next(steps)
        while True:
            try:
                answer = await (sync_to_async(step)() if callable(step) else send(step))
            except Exception as error:
                step = steps.throw(error)
            else:
                step = steps.send(answer)
    except StopIteration as end:
        value: _T = end.value
        return value
