"""All regions, as the process sees that has started them."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from example_project.bootstrap import folders
from example_project.regions.databases import Place
from example_project.regions.lines import Line
from example_project.regions.settings import NAMES, PLACES, REGION

_GRACE = 10.0
_KEPT, _OFTEN = 240, 0.25  # how many moments are remembered, and seconds between them


@dataclass(frozen=True)
class State:
    """What a region has told.

    Attributes:
        name: the region.
        counted: how often it has counted, as it remembers.
        seen: what its database says of each region.
        total: what its database says of all of them.
        counts: whether it goes on counting.
        problem: why it could not exchange something; empty where it could.
    """

    name: str
    counted: int = 0
    seen: Mapping[str, int] = field(default_factory=lambda: dict.fromkeys(NAMES, 0))
    total: int = 0
    counts: bool = True
    problem: str = ""


States = Mapping[str, State]


def everything(states: States) -> dict[str, int]:
    """What each region has counted, as far as anybody has told."""
    return {name: max(state.seen[name] for state in states.values()) for name in states}


def behind(states: States) -> dict[str, int]:
    """How much each region does not see yet."""
    all_ = sum(everything(states).values())
    return {name: all_ - state.total for name, state in states.items()}


def verdict(states: States) -> str:
    """Who agrees, in words."""
    late = [f"{name} is {missing:,} behind" for name, missing in behind(states).items() if missing]
    return ", ".join(late) or f"all agree on {sum(everything(states).values()):,}"


def is_exact(states: States) -> bool:
    """Whether all rest, and each sees of each what that one has counted, once."""
    counted = {name: state.counted for name, state in states.items()}
    return all(
        not state.counts and state.seen == counted and state.total == sum(counted.values())
        for state in states.values()
    )


class World:
    """The regions at work, and the lines between them."""

    def __init__(self, places: Mapping[str, Place], folder: Path) -> None:
        self._lines = {
            (one, other): Line(folder / f"{one}-{other}", places[other])
            for one, other in itertools.permutations(places, 2)
        }
        self._cut: set[str] = set()
        self._lock = threading.Lock()
        self._states = {name: State(name) for name in places}
        self._processes = {name: self._started(name, places) for name in places}
        self.moments: deque[dict[str, int]] = deque(maxlen=_KEPT)
        self.counts = True

    def states(self) -> States:
        """What each has told last."""
        return dict(self._states)

    @property
    def cut(self) -> frozenset[str]:
        """The regions whose lines are cut."""
        return frozenset(self._cut)

    @property
    def dead(self) -> list[str]:
        """Those that have ended, which none should."""
        return [name for name, process in self._processes.items() if process.poll() is not None]

    def set_line(self, region: str, *, whole: bool) -> None:
        """Cut or heal what leads from a region and to it."""
        with self._lock:
            (self._cut.discard if whole else self._cut.add)(region)
            for ends, line in self._lines.items():
                if self._cut.isdisjoint(ends):
                    line.heal()
                else:
                    line.cut()

    def set_counting(self, counts: bool) -> None:
        """Let the visitors of all regions come, or stay away."""
        self.counts = counts
        for process in self._processes.values():
            assert process.stdin is not None
            process.stdin.write("count\n" if counts else "rest\n")
            process.stdin.flush()

    def remember(self) -> None:
        """Note now and then how much each is behind."""
        while not self.dead:
            self.moments.append(behind(self.states()))
            time.sleep(_OFTEN)

    def close(self) -> None:
        """End all of them."""
        for process in self._processes.values():
            assert process.stdin is not None
            process.stdin.close()
        for process in self._processes.values():
            try:
                process.wait(_GRACE)
            except subprocess.TimeoutExpired:
                process.kill()
        for line in self._lines.values():
            line.close()

    def _started(self, name: str, places: Mapping[str, Place]) -> subprocess.Popen[str]:
        others = {other: self._lines[name, other].place for other in places if other != name}
        process = subprocess.Popen(
            [sys.executable, "-m", "example_project.regions.region"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={
                **os.environ,
                REGION: name,
                PLACES: json.dumps({"default": places[name]} | others),
            },
            cwd=folders.ROOT,
            # Ctrl-C is for us: they go on until all agree.
            start_new_session=True,
        )
        threading.Thread(target=self._listen, args=(name, process), daemon=True).start()
        return process

    def _listen(self, name: str, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            self._states[name] = replace(self._states[name], **json.loads(line))


@contextmanager
def world(places: Mapping[str, Place]) -> Iterator[World]:
    """Let all regions work meanwhile."""
    with ExitStack() as stack:
        folder = stack.enter_context(folders.temporary(None))
        made = World(places, folder.path)
        stack.callback(made.close)
        threading.Thread(target=made.remember, daemon=True).start()
        yield made
