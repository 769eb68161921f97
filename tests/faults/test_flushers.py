"""Flushers that are killed at every step while the servers run."""

from __future__ import annotations

import pytest

from tests.faults.flushers import NAME, STEPS
from tests.faults.servers import APPEND_ONLY, server
from tests.faults.stage import Stage

pytestmark = pytest.mark.faults


def test_killed_at_every_step(stage: Stage) -> None:
    with server(stage.folder, *APPEND_ONLY) as redis, stage.playing(redis.url) as play:
        for _ in play.pauses(0.1, 0.5, until=lambda: len(play.kills()) == len(STEPS)):
            stage.postgres.terminate(NAME)
    assert play.verdict.problems(loses=False) == []
    assert play.verdict.incidents.total() == 0
    assert play.verdict.kills.keys() == set(STEPS)
    assert min(play.verdict.outcomes["+"], play.verdict.reads[1]) > 100
