"""All states that a plan can reach, breadth first: a violation comes with its shortest trace."""

from __future__ import annotations

import gc
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from tests.protocol.callers import adjusting, callers, deleting
from tests.protocol.canonical import canonical
from tests.protocol.check import fault_of
from tests.protocol.faults import faults
from tests.protocol.flushing import flushing
from tests.protocol.plan import Plan
from tests.protocol.reading import reading
from tests.protocol.spending import is_thriftier
from tests.protocol.state import Step, World


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


class Node(NamedTuple):
    """A state, and the step that led to it."""

    world: World
    origin: Node | None = None
    label: str = ""


def successors(plan: Plan, world: World) -> Iterator[Step]:
    """Every step that is possible, and the state after it."""
    yield from callers(plan, world)
    yield from flushing(plan, world)
    if plan.reader:
        yield from reading(plan, world)
    if plan.adjust:
        yield from adjusting(plan, world)
    if plan.deletes:
        yield from deleting(plan, world)
    yield from faults(plan, world)


class Reached:
    """The states that were reached, with what was spent on the way to each.

    A state that is like an older one but for having spent more is none: the older one can do all
    that it can, and whatever goes wrong after it goes wrong after the older one as soon.
    """

    def __init__(self) -> None:
        self.count = 0
        self._spent: dict[tuple[object, ...], list[int]] = {}

    def is_new(self, world: World) -> bool:
        """Whether a state is to be looked at; it is taken for reached from now on."""
        known = self._spent.setdefault(world[:-1], [])
        for other in known:
            if is_thriftier(other, world.spent):
                return False
        known.append(world.spent)
        self.count += 1
        return True


def explore(plan: Plan) -> Explored:
    """Reach every state of a plan, or the first that is wrong."""
    with without_gc():
        return _explore(plan)


@contextmanager
def without_gc() -> Iterator[None]:
    """States are tuples that never lead back to themselves: there is nothing to search for."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _explore(plan: Plan) -> Explored:
    start = Node(plan.start())
    reached, drained, met = Reached(), set[World](), set[World]()
    reached.is_new(start.world)
    ahead = deque([start])
    while ahead:
        node = ahead.popleft()
        for label, after in successors(plan, node.world):
            # Most states are met on several ways: it is cheaper to know one than to number it.
            if after in met:
                continue
            met.add(after)
            world = canonical(after, node.world)
            if reached.is_new(world):
                ahead.append(Node(world, node, label))
                if fault := fault_of(plan, world, drained):
                    return Explored(reached.count, fault, _trace(ahead[-1]))
    return Explored(reached.count)


def _trace(node: Node) -> tuple[str, ...]:
    labels = []
    while node.origin is not None:
        labels.append(node.label)
        node = node.origin
    return tuple(reversed(labels))
