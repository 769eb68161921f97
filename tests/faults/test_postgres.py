"""A PostgreSQL that is stopped without a goodbye."""

from __future__ import annotations

import pytest

from tests.faults.servers import APPEND_ONLY, server
from tests.faults.stage import Stage

pytestmark = pytest.mark.faults


@pytest.mark.parametrize("careless", [False, True])
def test_stopped_immediately(stage: Stage, careless: bool) -> None:
    """What was acknowledged in Redis is in the database, also if its commits wait for nothing."""
    with (
        server(stage.folder, *APPEND_ONLY) as redis,
        stage.playing(redis.url, careless=careless) as play,
    ):
        for _ in play.pauses(0.5, 2.0, least=2):
            stage.postgres.stop_immediately()
            stage.postgres.start()
    assert play.verdict.problems(loses=False) == []
    assert play.verdict.outcomes["+"] > 100
