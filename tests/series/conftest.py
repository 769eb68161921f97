"""Fixtures of the tests of series."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from django.test import override_settings

from django_counters import clock
from django_counters.registry import registry
from django_counters.testing import override_counters as overridden
from tests.admin.conftest import login, viewer
from tests.read.conftest import past
from tests.rest.conftest import as_, client, fields, isolated, keys, namespaces
from tests.series.cells import MEASURED, STRATEGIES
from tests.series.counting import NAMESPACES, NOW

__all__ = [
    "as_",
    "by_period",
    "client",
    "fields",
    "isolated",
    "keys",
    "login",
    "namespaces",
    "past",
    "viewer",
]


@pytest.fixture
def by_period(
    monkeypatch: pytest.MonkeyPatch, override_counters: Callable[..., None]
) -> Iterator[None]:
    """It is half past noon of a day in May, and some namespaces are counted by period."""
    monkeypatch.setattr(clock, "utc", lambda: NOW)
    override_counters(**NAMESPACES)
    with override_settings(TIME_ZONE="UTC"):
        yield
    # What a test has made it forget may have been found again in the transaction of the test.
    registry.forget_strategies()


@pytest.fixture(params=STRATEGIES)
def counted(request: pytest.FixtureRequest, cached: str) -> Iterator[str]:
    """A key of a namespace of each strategy."""
    options = {"STRATEGY": request.param, **MEASURED}
    if request.param == "cached":
        options["OPTIONS"] = {"timeout": 10}
    with overridden(hits=options):
        yield "hits:page"
