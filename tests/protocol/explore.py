"""All states that a plan can reach, breadth first: a violation comes with its shortest trace."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from tests.protocol.check import fault_of
from tests.protocol.plan import Plan
from tests.protocol.state import World
from tests.protocol.steps import successors


class Explored(NamedTuple):
    """What became of a plan.

    Attributes:
        states: How many were reached.
        fault: What is wrong with the last one; empty: nothing is wrong with any.
        trace: The steps that lead to it.
    """

    states: int
    fault: str = ""
    trace: tuple[str, ...] = ()

    def __str__(self) -> str:
        if not self.fault:
            return f"holds in {self.states} states"
        return f"{self.fault}:\n    " + "\n    ".join(self.trace)


Reached = dict[World, tuple[World, str] | None]


def explore(plan: Plan) -> Explored:
    """Reach every state of a plan, or the first that is wrong."""
    start = plan.start()
    reached: Reached = {start: None}
    ahead = deque([start])
    while ahead:
        world = ahead.popleft()
        for label, after in successors(plan, world):
            if after in reached:
                continue
            reached[after] = (world, label)
            fault = fault_of(plan, after)
            if fault:
                return Explored(len(reached), fault, _trace(reached, after))
            ahead.append(after)
    return Explored(len(reached))


def _trace(reached: Reached, world: World) -> tuple[str, ...]:
    labels: list[str] = []
    origin = reached[world]
    while origin is not None:
        world, label = origin
        labels.append(label)
        origin = reached[world]
    return tuple(reversed(labels))
