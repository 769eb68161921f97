"""Consumers that die, or stand still with a page in their hands, and come back too late."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from django.db import OperationalError, close_old_connections, connection, connections

from django_counters.stores.sql.positions import Moved
from tests.concurrency.crowd import FORKS, _Mother
from tests.concurrency.servers import backend, is_there

PATIENCE = 120
ALIVE = 3

# Made when one stands still, with the number of its session; says whether it may go on.
Overtaken = Callable[[int], Callable[[], bool]]


class Turns(Protocol):
    """A consumer, as this scene needs it."""

    def turn(self) -> Any:
        """Count some messages."""


# Makes a consumer in its process; it calls a function with the name of each step.
Make = Callable[[Callable[[str], None]], Turns]


class Fate(NamedTuple):
    """What becomes of a consumer: a signal that it sends to itself at a step of a page of its."""

    step: str
    signal: int
    page: int = 1


@dataclass
class Scene:
    """What has happened: how many were killed, stood still, and found that they were too late."""

    killed: int = 0
    stopped: int = 0
    late: int = 0
    alive: list[tuple[Any, Any]] = field(default_factory=list)
    waking: list[tuple[Callable[[], bool], int]] = field(default_factory=list)


def fates(steps: Sequence[str], kills: int, stops: int) -> list[Fate]:
    """As many deaths and as many who stand still as are asked for, at all steps in turn."""
    deaths = [Fate(steps[number % len(steps)], signal.SIGKILL) for number in range(kills)]
    # Not after the commit: there nobody is late.
    before = [step for step in steps if step != "committed"]
    still = [Fate(before[number % len(before)], signal.SIGSTOP) for number in range(stops)]
    every = max(1, kills // (stops + 1))
    for number, one in enumerate(still):
        deaths.insert((number + 1) * every + number, one)
    return deaths


def play(
    make: Make,
    plan: Sequence[Fate],
    feed: Callable[[float], None],
    done: Callable[[], bool],
    overtaken: Overtaken,
    patience: float = PATIENCE,
) -> Scene:
    """Let consumers work until all of the plan has happened and everything is done.

    Args:
        make: makes a consumer.
        plan: the fates of the first ones; those who come after them are left alone.
        feed: brings messages, up to a share of all: there are some left for each fate.
        done: whether everything is counted.
        overtaken: how long one stands still.
        patience: after how many seconds it is given up.
    """
    scene, left = Scene(), list(plan)
    with _cleaned(scene):
        deadline = time.monotonic() + patience
        while True:
            happened = scene.killed + scene.stopped
            # One without a fate would leave nothing for the others.
            while len(scene.alive) - len(scene.waking) < ALIVE and (left or happened == len(plan)):
                scene.alive.append(_started(make, left.pop(0) if left else None))
            _look(scene, overtaken)
            feed((happened + 1) / (len(plan) + 1))
            if happened == len(plan) and not scene.waking and done():
                return scene
            assert time.monotonic() < deadline, f"not done: {scene}, left: {left}"


def _started(make: Make, fate: Fate | None) -> tuple[Any, Any]:
    ours, theirs = FORKS.Pipe()
    name = str(connection.settings_dict["NAME"])
    process = FORKS.Process(target=_consume, args=(_Mother(), name, theirs, make, fate))
    process.start()
    theirs.close()
    return process, ours


def after(seconds: float) -> Overtaken:
    """Those who stand still go on after so many seconds."""

    def begin(_: int) -> Callable[[], bool]:
        due = time.monotonic() + seconds
        return lambda: time.monotonic() >= due

    return begin


def without_session(session: int) -> Callable[[], bool]:
    """Those who stand still in a transaction go on when the server has ended it."""

    return lambda: not is_there(session)


def _look(scene: Scene, overtaken: Overtaken) -> None:
    """Take note of what the consumers say; wake those who have stood still for long enough."""
    for due, pid in list(scene.waking):
        if due():
            os.kill(pid, signal.SIGCONT)
            scene.waking.remove((due, pid))
    for process, pipe in list(scene.alive):
        with suppress(EOFError, ConnectionResetError):
            while pipe.poll(0.01):
                what = pipe.recv()
                scene.late += what == "late"
                if isinstance(what, int):
                    scene.stopped += 1
                    scene.waking.append((overtaken(what), process.pid))
                assert not str(what).startswith("Traceback"), what
        if process.exitcode is not None:
            scene.killed += process.exitcode == -signal.SIGKILL
            assert process.exitcode in (0, -signal.SIGKILL), process.exitcode
            scene.alive.remove((process, pipe))


@contextmanager
def _cleaned(scene: Scene) -> Iterator[None]:
    try:
        yield
    finally:
        for process, pipe in scene.alive:
            # Also one that stands still.
            process.kill()
            process.join()
            process.close()
            pipe.close()


def _consume(_mother: object, database: str, pipe: Any, make: Make, fate: Fate | None) -> None:
    """One consumer, in a process of its own."""
    connections["default"].settings_dict["NAME"] = database
    stood: list[str] = []
    steps: list[str] = []

    def step(name: str) -> None:
        steps.append(name)
        if fate and not stood and name == fate.step and steps.count(name) >= fate.page:
            if fate.signal == signal.SIGSTOP:
                # The database may refuse to answer: then the next turn has this fate.
                session = backend()
                stood.append(name)
                pipe.send(session)
            os.kill(os.getpid(), fate.signal)

    try:
        consumer = make(step)
        # Whoever has stood still ends with that turn: without a fate it would be in the way.
        while not stood:
            close_old_connections()
            if _is_late(consumer, stood):
                pipe.send("late")
    except Exception:
        import traceback

        pipe.send(traceback.format_exc())
        raise


def _is_late(consumer: Turns, stood: Sequence[str]) -> bool:
    """Take a turn; whether it said that others were faster, after one has stood still."""
    try:
        done = consumer.turn()
    except (OperationalError, Moved):
        # Others go on, as a loop does: somebody may be away for a moment.
        return bool(stood)
    if not done.messages:
        time.sleep(0.02)
    return bool(stood and done.busy)
