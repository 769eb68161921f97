"""Limits that nobody can keep are counted."""

from __future__ import annotations

import secrets
from typing import Any

import pytest
from prometheus_client import REGISTRY

import django_counters.metrics.prometheus  # noqa: F401 - its import begins to count
from django_counters.contrib.limits import Limit
from django_counters.contrib.limits.limit import WhenAway
from tests.limits.test_away import DEAD

NAME = "django_counters_limits_away_total"


@pytest.mark.parametrize("decision", ["admit", "refuse"])
def test_each_request_that_is_not_counted(decision: WhenAway, settings: Any) -> None:
    settings.CACHES = {**settings.CACHES, **DEAD}
    name = secrets.token_hex(8)
    labels = {"limit": name, "decision": decision}
    assert Limit(name, "9/day", timeout=10, when_away=decision).take("ann").counted
    assert REGISTRY.get_sample_value(NAME, labels) is None
    for _ in range(2):
        Limit(name, "9/day", cache="dead", when_away=decision).take("ann")
    assert REGISTRY.get_sample_value(NAME, labels) == 2
