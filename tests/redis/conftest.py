"""Fixtures of the tests of connections to Redis."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.redis.counting import some_key
from tests.redis.proxy import Proxy, proxied


@pytest.fixture
def proxy() -> Iterator[Proxy]:
    with proxied() as running:
        yield running


@pytest.fixture
def key() -> Iterator[str]:
    with some_key() as name:
        yield name
