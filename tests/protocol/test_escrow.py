"""No more is sold than there is, whatever is restored; and each rule is needed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.protocol.escrow import LARGE, PLANS, explore
from tests.protocol.escrow_world import Flaw, Plan

MORE = [pytest.param(plan, marks=pytest.mark.slow) for plan in LARGE]


@pytest.mark.parametrize("plan", [*PLANS, *MORE], ids=lambda plan: plan.name)
def test_holds(plan: Plan) -> None:
    explored = explore(plan)
    assert not explored.fault, str(explored)


@pytest.mark.parametrize("flaw", Flaw, ids=lambda flaw: flaw.words)
def test_is_found_out(flaw: Flaw) -> None:
    """In a plan that holds without the flaw."""
    (plan,) = (plan for plan in PLANS if plan.name == flaw.plan)
    assert flaw.fault in explore(replace(plan, flaw=flaw)).fault
