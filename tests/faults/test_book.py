"""The book notices when the protocol is broken: each mutant doubles or loses what was counted."""

from __future__ import annotations

import time

import pytest

from tests.faults.flushers import STEPS
from tests.faults.servers import APPEND_ONLY, server
from tests.faults.stage import Stage
from tests.faults.test_redis import roll_back

pytestmark = pytest.mark.faults
# Not each loss shows: so many that one does.
ENOUGH = 24


def test_the_claim_is_ignored(stage: Stage) -> None:
    mutant = "the claim is ignored"
    with (
        server(stage.folder, *APPEND_ONLY) as redis,
        stage.playing(redis.url, mutant=mutant) as play,
    ):
        for _ in play.pauses(1, 1):
            if len(play.kills()) == len(STEPS):
                break
    assert play.verdict.doubled


def test_acknowledged_before_it_is_applied(stage: Stage) -> None:
    mutant = "acknowledged before it is applied"
    with (
        server(stage.folder, *APPEND_ONLY) as redis,
        stage.playing(redis.url, mutant=mutant) as play,
    ):
        for _ in play.pauses(1, 1):
            if len(play.kills()) == len(STEPS):
                break
    assert play.verdict.outside


def test_every_history_is_the_present_one(stage: Stage) -> None:
    mutant = "every history is the present one"
    with server(stage.folder) as redis, stage.playing(redis.url, mutant=mutant) as play:
        for _ in play.pauses(0.2, 0.4, until=lambda: len(play.losses) >= ENOUGH):
            with redis.client() as client:
                client.save()
            time.sleep(stage.chance.choice([0.1, 0.3]))
            roll_back(redis, play)
            if len(play.losses) == ENOUGH:
                break
    assert play.verdict.outside
