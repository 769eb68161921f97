"""The protocol holds in every order of its steps, and each of its parts is needed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.protocol.catalogue import LARGE, PLANS
from tests.protocol.explore import explore
from tests.protocol.plan import Flaw, Plan


def name_of(plan: Plan) -> str:
    return plan.name


MORE = [pytest.param(plan, marks=pytest.mark.slow) for plan in LARGE]


@pytest.mark.parametrize("plan", [*PLANS, *MORE], ids=name_of)
def test_holds(plan: Plan) -> None:
    explored = explore(plan)
    assert not explored.fault, str(explored)


@pytest.mark.parametrize("flaw", Flaw, ids=lambda flaw: flaw.words)
def test_is_found_out(flaw: Flaw) -> None:
    """In a plan that holds without the flaw."""
    (plan,) = (plan for plan in PLANS if plan.name == flaw.plan)
    assert flaw.fault in explore(replace(plan, flaw=flaw)).fault
