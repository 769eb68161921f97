"""Combining, with an exception from outside at each line of each role: nobody waits for ever."""

from __future__ import annotations

import dis
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from types import CodeType, FrameType
from typing import Any

import pytest
from django.db import connection

from django_counters.exceptions import OutcomeUnknown
from django_counters.models import Counter
from django_counters.registry import registry
from django_counters.stores.sql.tables import NAMED
from django_counters.strategies import combining
from django_counters.testing import override_counters

pytestmark = [pytest.mark.many_writers, pytest.mark.django_db(transaction=True)]
WITHIN = 1.0
# In the order in which they come.
ROLES = ("leader", "next", "follower", "last")
# More lines than any role has.
LINES = 200


class Interrupted(Exception):
    """What a signal handler raises."""


@pytest.fixture(autouse=True)
def _combined(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(combining, "PATIENCE", 0.02)
    with override_counters(c={"OPTIONS": {"combine": True}}):
        yield


class Raising:
    """Raises at one line of the file, counted as they are executed; ``lines``: how many those were.

    Not where Python never looks for signals: as a ``with`` is left, and where nothing is done.
    """

    def __init__(self, at: int) -> None:
        self.at = at
        self.lines = 0

    def __call__(self, frame: FrameType, event: str, argument: Any) -> Any:
        if frame.f_code.co_filename != combining.__file__:
            return None
        if event == "line" and frame.f_lasti not in _deaf(frame.f_code):
            self.lines += 1
            if self.lines == self.at:
                raise Interrupted
        return self


def _deaf(code: CodeType) -> set[int]:
    """Where Python does not look for signals: at ``try:``, and as a ``with`` is left."""
    steps = list(dis.get_instructions(code))
    names = [step.opname for step in steps]
    values = [(step.opname, step.argval) for step in steps]
    return {
        step.offset
        for at, step in enumerate(steps)
        if step.opname == "NOP"
        or values[at : at + 3] == [("LOAD_CONST", None)] * 3
        or names[at : at + 2] == ["PUSH_EXC_INFO", "WITH_EXCEPT_START"]
    }


class Crowd:
    """Threads that count one key, the first of them held in its statement until all wait."""

    def __init__(self, pool: ThreadPoolExecutor) -> None:
        self._pool = pool
        self._held, self._go = threading.Event(), threading.Event()
        policy = registry.policy("c:").recipe
        self._queue: Any = registry.strategy(policy, NAMED, "default")

    def count(self, role: str, raising: Raising) -> list[Future[int]]:
        """The outcomes of five calls, of which one has the role."""
        calls: list[Future[int]] = []

        def settled() -> bool:
            ended = sum(call.done() for call in calls)
            led = self._held.is_set() and not calls[0].done()
            return ended + led + len(self._queue._waiting) >= len(calls)

        for number in range(4):
            tracer = raising if ROLES[number] == role else None
            calls.append(self._pool.submit(self._call, tracer, hold=not number))
            waited(settled)
        self._go.set()
        return calls

    def _call(self, raising: Raising | None, *, hold: bool) -> int:
        def held(execute: Callable[..., Any], *arguments: Any) -> Any:
            if hold:
                self._held.set()
                self._go.wait(WITHIN)
            return execute(*arguments)

        try:
            connection.ensure_connection()
            with connection.execute_wrapper(held):
                sys.settrace(raising)
                try:
                    return int(Counter.objects.increment("c:hot"))
                finally:
                    sys.settrace(None)
        finally:
            connection.close()


def waited(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WITHIN
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.0005)


@pytest.mark.parametrize("role", ROLES[:3])
def test_at_each_line(role: str) -> None:
    """Each call ends within a second, and says what is true; and whoever comes next can count."""
    raised = 0
    with ThreadPoolExecutor(8) as pool:
        for at in range(1, LINES):
            before, raising = Counter.objects.value("c:hot"), Raising(at)
            outcomes = [outcome(call) for call in Crowd(pool).count(role, raising)]
            raised += Interrupted in outcomes
            counted = sum(isinstance(one, int) for one in outcomes)
            unknown = sum(one in (OutcomeUnknown, Interrupted) for one in outcomes)
            assert counted + unknown == len(outcomes), (at, outcomes)
            value = Counter.objects.value("c:hot") - before
            assert counted <= value <= counted + unknown, (at, outcomes)
            assert pool.submit(_next).result(WITHIN) == before + value + 1, at
            if raising.lines < at:
                break
    assert raised > 5
    assert raising.lines < at


def outcome(call: Future[int]) -> Any:
    """The value that a call returned, or the type of the error that it raised."""
    error = call.exception(WITHIN)
    return call.result() if error is None else type(error)


def _next() -> int:
    try:
        return int(Counter.objects.increment("c:hot"))
    finally:
        connection.close()
