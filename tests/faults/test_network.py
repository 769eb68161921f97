"""A network that loses replies: each increment counts once at most, with a token exactly once."""

from __future__ import annotations

import pytest

from tests.faults.lossy import FAULTS, lossy
from tests.faults.servers import APPEND_ONLY, server
from tests.faults.stage import Stage

pytestmark = pytest.mark.faults


def test_replies_are_lost(stage: Stage) -> None:
    with (
        server(stage.folder, *APPEND_ONLY) as redis,
        lossy(redis.url, stage.chance) as network,
        stage.playing(network.url, direct=redis.url) as play,
    ):
        for _ in play.pauses(0.5, 1.0, until=lambda: network.did.keys() == FAULTS.keys()):
            network.cut()
    assert play.verdict.problems(loses=False) == []
    assert network.did.keys() == FAULTS.keys()
    assert play.verdict.outcomes["?"] > 0
    assert play.verdict.tokened.keys() == {"+"}
    assert play.verdict.outcomes["+"] > 100
    stage.tell("network", ", ".join(f"{fault} {n}" for fault, n in sorted(network.did.items())))
