"""Long walks hold both protocols, and find out what they lack."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.protocol import escrow_world, region_plans
from tests.protocol.walk import Walked
from tests.protocol.walks import counting, selling

SEEDS = [range(100), pytest.param(range(100, 2_000), marks=pytest.mark.slow)]


@pytest.mark.parametrize("seeds", SEEDS, ids=["some", "many"])
@pytest.mark.parametrize("walk", [counting, selling])
def test_holds(walk: Callable[[int], Walked], seeds: range) -> None:
    for seed in seeds:
        walked = walk(seed)
        assert not walked.fault, f"seed {seed}: {walked}"


@pytest.mark.slow
@pytest.mark.parametrize("flaw", region_plans.Flaw, ids=lambda flaw: flaw.words)
def test_counting_finds_out(flaw: region_plans.Flaw) -> None:
    assert any(counting(seed, flaw).fault for seed in range(2_000))


@pytest.mark.slow
@pytest.mark.parametrize("flaw", escrow_world.Flaw, ids=lambda flaw: flaw.words)
def test_selling_finds_out(flaw: escrow_world.Flaw) -> None:
    assert any(selling(seed, flaw).fault for seed in range(2_000))
