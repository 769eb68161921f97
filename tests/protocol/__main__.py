"""``python -m tests.protocol``: the plans and their states, the flaws and their shortest traces.

``--slow`` adds the large plans.
"""

from __future__ import annotations

import sys
import time
from dataclasses import replace

from tests.protocol.catalogue import FLAWS, LARGE, PLANS
from tests.protocol.explore import Explored, explore
from tests.protocol.plan import Plan


def _explored(plan: Plan) -> tuple[Explored, float]:
    began = time.monotonic()
    return explore(plan), time.monotonic() - began


def main(arguments: list[str]) -> bool:
    """Print two tables; and whether all plans hold and all flaws were found out."""
    good = True
    for plan in PLANS + (LARGE if "--slow" in arguments else ()):
        explored, seconds = _explored(plan)
        print(f"{plan.name:<28}{seconds:6.1f} s  {explored}", flush=True)
        good = good and not explored.fault
    plans = {plan.name: plan for plan in PLANS}
    for flaw, (name, fault) in FLAWS.items():
        explored, _ = _explored(replace(plans[name], flaw=flaw))
        print(f"\n{flaw.value} ({name})\n    {explored}", flush=True)
        good = good and fault in explored.fault
    return good


if __name__ == "__main__":
    sys.exit(0 if main(sys.argv[1:]) else 1)
