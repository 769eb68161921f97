"""What is lost while the servers keep what they were told: flushers, replies, PostgreSQL, slots.

What Redis itself loses is in test_redis.
"""

from __future__ import annotations

import pytest

from tests.faults.cluster import cluster
from tests.faults.flushers import NAME, STEPS
from tests.faults.lossy import FAULTS, lossy
from tests.faults.servers import APPEND_ONLY, server
from tests.faults.stage import Stage
from tests.redis.servers import needs_redis

pytestmark = pytest.mark.faults
TERMINATED = 40


def test_flushers_are_killed_at_every_step(stage: Stage) -> None:
    with server(stage.folder, *APPEND_ONLY) as redis, stage.playing(redis.url) as play:
        for _ in play.pauses(0.1, 0.5, until=lambda: len(play.kills()) == len(STEPS)):
            # More of it, and a busy machine would never come to a commit.
            if play.faults <= TERMINATED:
                stage.postgres.terminate(NAME)
    assert play.verdict.problems(loses=False) == []
    assert play.verdict.incidents.total() == 0
    assert play.verdict.kills.keys() == set(STEPS)
    assert min(play.verdict.outcomes["+"], play.verdict.reads[1]) > 100


def test_replies_are_lost(stage: Stage) -> None:
    """Each increment counts once at most, with a token exactly once."""
    with (
        server(stage.folder, *APPEND_ONLY) as redis,
        lossy(redis.url, stage.chance) as network,
        stage.playing(network.url, direct=redis.url) as play,
    ):
        for _ in play.pauses(0.3, 0.6, until=lambda: network.did.keys() == FAULTS.keys()):
            network.cut()
    assert play.verdict.problems(loses=False) == []
    assert network.did.keys() == FAULTS.keys()
    assert play.verdict.outcomes["?"] > 0
    assert play.verdict.tokened.keys() == {"+"}
    assert play.verdict.outcomes["+"] > 100
    stage.tell("network", ", ".join(f"{fault} {n}" for fault, n in sorted(network.did.items())))


@pytest.mark.parametrize("careless", [False, True])
def test_postgresql_is_stopped_immediately(stage: Stage, careless: bool) -> None:
    """What was acknowledged in Redis is in the database, also if its commits wait for nothing."""
    with (
        server(stage.folder, *APPEND_ONLY) as redis,
        stage.playing(redis.url, careless=careless) as play,
    ):
        for _ in play.pauses(0.3, 1.2, least=3):
            stage.postgres.stop_immediately()
            stage.postgres.start()
    assert play.verdict.problems(loses=False) == []
    assert play.verdict.outcomes["+"] > 100


@needs_redis
def test_slots_of_a_cluster_move(stage: Stage) -> None:
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
