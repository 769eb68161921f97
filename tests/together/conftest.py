"""A named counter of each strategy, by whose clock no period ends."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from django_counters import clock
from django_counters.testing import override_counters
from tests.adjustments.adjustables import NAMED
from tests.together.counting import declared


@pytest.fixture(autouse=True)
def _no_period_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    now = clock.utc()
    monkeypatch.setattr(clock, "utc", lambda: now)


@pytest.fixture(params=NAMED)
def strategy(request: pytest.FixtureRequest) -> Iterator[str]:
    with override_counters(c=declared(request.param)):
        yield str(request.param)
