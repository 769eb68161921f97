"""The protocol holds in every order of its steps, and each of its parts is needed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.protocol.catalogue import FLAWS, LARGE, PLANS
from tests.protocol.explore import explore
from tests.protocol.plan import Flaw, Plan


def name_of(plan: Plan) -> str:
    return plan.name


@pytest.mark.parametrize("plan", PLANS, ids=name_of)
def test_holds(plan: Plan) -> None:
    explored = explore(plan)
    assert not explored.fault, str(explored)


@pytest.mark.slow
@pytest.mark.parametrize("plan", LARGE, ids=name_of)
def test_holds_with_more(plan: Plan) -> None:
    explored = explore(plan)
    assert not explored.fault, str(explored)


@pytest.mark.parametrize("flaw", Flaw, ids=lambda flaw: flaw.value)
def test_is_found_out(flaw: Flaw) -> None:
    """In a plan that holds without the flaw."""
    name, fault = FLAWS[flaw]
    (plan,) = (plan for plan in PLANS if plan.name == name)
    assert fault in explore(replace(plan, flaw=flaw)).fault
