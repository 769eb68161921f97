"""Long walks hold both protocols, and find out what they lack."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.protocol.walk import Walked
from tests.protocol.walks import counting, selling

SEEDS = [range(100), pytest.param(range(100, 2_000), marks=pytest.mark.slow)]


@pytest.mark.parametrize("seeds", SEEDS, ids=["some", "many"])
@pytest.mark.parametrize("walk", [counting, selling])
def test_holds(walk: Callable[[int], Walked], seeds: range) -> None:
    for seed in seeds:
        walked = walk(seed)
        assert not walked.fault, f"seed {seed}: {walked}"
