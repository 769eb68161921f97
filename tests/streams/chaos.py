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

PATIENCE = 120
ALIVE = 3


class Turns(Protocol):
    """A consumer, as this scene needs it."""

    def turn(self) -> Any:
        """Count some messages."""


# Makes a consumer in its process; it calls a function with the name of each step.
Make = Callable[[Callable[[str], None]], Turns]


class Fate(NamedTuple):
    """What becomes of a consumer: a signal that it sends to itself at a step of its first page."""

    step: str
    signal: int


@dataclass
class Scene:
    """What has happened: how many were killed, stood still, and found that they were too late."""

    killed: int = 0
    stopped: int = 0
    late: int = 0
    alive: list[tuple[Any, Any]] = field(default_factory=list)
    waking: list[tuple[float, int]] = field(default_factory=list)


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
    still: float,
) -> Scene:
    """Let consumers work until all of the plan has happened and everything is done.

    Args:
        make: makes a consumer.
        plan: the fates of the first ones; those who come after them are left alone.
        feed: brings messages, up to a share of all: there are some left for each fate.
        done: whether everything is counted.
        still: for how many seconds one stands still.
    """
    scene, left = Scene(), list(plan)
    with _cleaned(scene):
        deadline = time.monotonic() + PATIENCE
        while True:
            happened = scene.killed + scene.stopped
            # One without a fate would leave nothing for the others.
            while len(scene.alive) < ALIVE and (left or happened == len(plan)):
                scene.alive.append(_started(make, left.pop(0) if left else None))
            _look(scene, still)
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


def _look(scene: Scene, still: float) -> None:
    """Take note of what the consumers say; wake those who have stood still for long enough."""
    now = time.monotonic()
    for due, pid in list(scene.waking):
        if now >= due:
            os.kill(pid, signal.SIGCONT)
            scene.waking.remove((due, pid))
    for process, pipe in list(scene.alive):
        with suppress(EOFError, ConnectionResetError):
            while pipe.poll(0.01):
                what = pipe.recv()
                scene.late += what == "late"
                if what == "stops":
                    scene.stopped += 1
                    scene.waking.append((now + still, process.pid))
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
            process.kill()
            process.join()
            process.close()
            pipe.close()


def _consume(_mother: object, database: str, pipe: Any, make: Make, fate: Fate | None) -> None:
    """One consumer, in a process of its own."""
    connections["default"].settings_dict["NAME"] = database

    def step(name: str) -> None:
        if fate and name == fate.step:
            if fate.signal == signal.SIGSTOP:
                pipe.send("stops")
            os.kill(os.getpid(), fate.signal)

    try:
        consumer = make(step)
        while True:
            close_old_connections()
            try:
                if not consumer.turn().messages:
                    time.sleep(0.02)
            except (OperationalError, Moved):
                pipe.send("late")
                return
    except Exception:
        import traceback

        pipe.send(traceback.format_exc())
        raise
