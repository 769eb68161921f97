"""Regions agree in every order of the steps, and each part of their protocol is needed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.protocol.region_plans import PLANS, Flaw, Plan
from tests.protocol.regions import explore


@pytest.mark.parametrize("plan", PLANS, ids=lambda plan: plan.name)
def test_holds(plan: Plan) -> None:
    explored = explore(plan)
    assert not explored.fault, str(explored)


@pytest.mark.parametrize("flaw", Flaw, ids=lambda flaw: flaw.words)
def test_is_found_out(flaw: Flaw) -> None:
    """In a plan that holds without the flaw."""
    (plan,) = (plan for plan in PLANS if plan.name == flaw.plan)
    assert flaw.fault in explore(replace(plan, flaw=flaw)).fault
