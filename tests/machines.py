"""How a model runs: other examples in each run, and what repeats one that fails."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test


def run(
    model: type[RuleBasedStateMachine],
    request: pytest.FixtureRequest,
    *,
    steps: int,
    examples: int,
    slow: int,
) -> None:
    """Take the steps of a model in so many examples, or in more with ``--slow``.

    The first example is the plainest one, and each of the others leaves out some kinds of steps: a
    few examples more find more than longer ones. Chance begins anew in each run. An example that
    fails is printed, with a line that repeats it.
    """
    many = slow if request.config.getoption("--slow") else examples
    chosen = settings(
        max_examples=many,
        stateful_step_count=steps,
        derandomize=False,
        print_blob=True,
        # To explain a failure line by line takes minutes.
        phases=[phase for phase in settings().phases if phase is not Phase.explain],
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(model, settings=chosen)
