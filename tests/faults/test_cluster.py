"""Slots that move between the masters of a cluster while they count and are flushed."""

from __future__ import annotations

import pytest

from tests.faults.cluster import cluster
from tests.faults.servers import server
from tests.faults.stage import Stage

pytestmark = pytest.mark.faults


def test_slots_move(stage: Stage) -> None:
    with (
        cluster(stage.folder) as masters,
        # The cache that is declared elsewhere in the project.
        server(stage.folder) as redis,
        stage.playing(redis.url, cache=masters.url) as play,
    ):
        for _ in play.pauses(0.0, 0.1, least=20):
            masters.move(stage.chance)
    assert play.verdict.problems(loses=False) == []
    assert play.verdict.outcomes["+"] > 100
