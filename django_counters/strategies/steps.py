"""Work that asks others now and then, written once for code that waits and for code that awaits.

A generator yields what it needs: a request to a cache of pending increments, a function that talks
to the database, or a pause. The driver sends the answers back, and throws errors in.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Generator
from typing import Any, NamedTuple, TypeVar

from asgiref.sync import sync_to_async

_T = TypeVar("_T")
Steps = Generator[Any, Any, _T]


class Pause(NamedTuple):
    """Do nothing for some seconds."""

    seconds: float


def run(steps: Steps[_T], send: Callable[[Any], Any]) -> _T:
    """Take all steps, one after the other; ``send`` answers what is not a function."""
    try:
        step = next(steps)
        while True:
            try:
                answer = _taken(step, send)
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
                answer = await _ataken(step, send)
            except Exception as error:
                step = steps.throw(error)
            else:
                step = steps.send(answer)
    except StopIteration as end:
        value: _T = end.value
        return value


def _taken(step: Any, send: Callable[[Any], Any]) -> Any:
    if isinstance(step, Pause):
        return time.sleep(step.seconds)
    return step() if callable(step) else send(step)


def _ataken(step: Any, send: Callable[[Any], Awaitable[Any]]) -> Awaitable[Any]:
    if isinstance(step, Pause):
        return asyncio.sleep(step.seconds)
    return sync_to_async(step)() if callable(step) else send(step)
