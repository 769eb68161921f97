"""What the tests of cached counters share."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest
import redis


@pytest.fixture
def server(cached: str) -> Iterator[Any]:
    """A connection that goes straight to the server."""
    with redis.Redis.from_url(os.environ["REDIS_URL"], decode_responses=True) as client:
        yield client
