"""``python -m tests.protocol``: the plans and their states, the flaws and their shortest traces.

``--slow`` adds the large plans.
"""

from __future__ import annotations

import sys
import time
from dataclasses import replace

from tests.protocol.catalogue import LARGE, PLANS
from tests.protocol.explore import Explored, explore
from tests.protocol.plan import Flaw, Plan


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
    for flaw in Flaw:
        explored, _ = _explored(replace(plans[flaw.plan], flaw=flaw))
        print(f"\n{flaw.words} ({flaw.plan})\n    {explored}", flush=True)
        good = good and flaw.fault in explored.fault
    return good


if __name__ == "__main__":
    sys.exit(0 if main(sys.argv[1:]) else 1)
