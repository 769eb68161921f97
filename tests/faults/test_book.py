"""The book notices when the protocol is broken: what was counted is doubled or lost."""

from __future__ import annotations

import pytest

from tests.faults.flushers import STEPS
from tests.faults.mutants import FORGOTTEN, IGNORED, LEFT_OUT, REFUSED, UNCLAIMED
from tests.faults.servers import APPEND_ONLY, server
from tests.faults.stage import Stage

pytestmark = pytest.mark.faults


SHOWN = {
    IGNORED: "doubled",
    REFUSED: "outside",
    UNCLAIMED: "cells",
    FORGOTTEN: "cells",
    LEFT_OUT: "people",
}


@pytest.mark.parametrize(("mutant", "shows"), SHOWN.items())
def test_a_flush_that_is_broken(stage: Stage, mutant: str, shows: str) -> None:
    with (
        server(stage.folder, *APPEND_ONLY) as redis,
        stage.playing(redis.url, mutant=mutant) as play,
    ):
        for _ in play.pauses(0.2, 0.2, until=lambda: len(play.kills()) == len(STEPS)):
            if len(play.kills()) == len(STEPS):
                break
    assert getattr(play.verdict, shows)
