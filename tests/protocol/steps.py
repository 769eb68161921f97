"""What can happen next."""

from __future__ import annotations

from collections.abc import Iterator

from tests.protocol.callers import adjusting, callers
from tests.protocol.faults import faults
from tests.protocol.flushing import flushing
from tests.protocol.plan import Plan
from tests.protocol.reading import reading
from tests.protocol.state import Step, World


def successors(plan: Plan, world: World) -> Iterator[Step]:
    """Every step that is possible, and the state after it."""
    yield from callers(plan, world)
    yield from flushing(plan, world)
    if plan.reader:
        yield from reading(plan, world)
    if plan.adjust:
        yield from adjusting(plan, world)
    yield from faults(plan, world)
