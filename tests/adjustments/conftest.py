"""Fixtures of the tests of adjustments."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.adjustments.adjustables import KINDS, NAMED, SOME, Adjustable, params


def _adjustable(request: pytest.FixtureRequest) -> Iterator[Adjustable]:
    if "cached" in request.param:
        request.getfixturevalue("cached")
    counter = Adjustable(KINDS[request.param])
    with counter.declared():
        yield counter


@pytest.fixture(params=params(KINDS))
def any_counter(request: pytest.FixtureRequest, db: None) -> Iterator[Adjustable]:
    """One counter of each kind, fields and slots included."""
    yield from _adjustable(request)


@pytest.fixture(params=params(SOME))
def some_counter(request: pytest.FixtureRequest, db: None) -> Iterator[Adjustable]:
    """One counter of each way in which they differ."""
    yield from _adjustable(request)


@pytest.fixture(params=params(NAMED))
def counter(request: pytest.FixtureRequest, db: None) -> Iterator[Adjustable]:
    """One named counter of each strategy."""
    yield from _adjustable(request)
