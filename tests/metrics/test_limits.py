"""Limits that nobody can keep are counted."""

from __future__ import annotations

import secrets
from typing import Any

import pytest
from prometheus_client import REGISTRY

from django_counters.limits import Limit
from django_counters.limits.limit import WhenAway
from django_counters.metrics.names import LIMITS_AWAY
from tests.limits.test_away import DEAD


@pytest.mark.parametrize("decision", ["admit", "refuse"])
def test_each_request_that_is_not_counted(decision: WhenAway, settings: Any) -> None:
    settings.CACHES = {**settings.CACHES, **DEAD}
    name = secrets.token_hex(8)
    labels = {"limit": name, "decision": decision}
    assert Limit(name, "9/day", timeout=10, when_away=decision).take("ann").counted
    assert REGISTRY.get_sample_value(LIMITS_AWAY.name, labels) is None
    for _ in range(2):
        Limit(name, "9/day", cache="dead", when_away=decision).take("ann")
    assert REGISTRY.get_sample_value(LIMITS_AWAY.name, labels) == 2
