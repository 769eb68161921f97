"""Every test of the example has a place of its own in Redis, and the settings of the example."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator

import pytest
import redis
from django.test import override_settings

from example_project.settings import prefix_in_redis
from example_project.urls import count_for
from tests.conftest import forget_pending
from tests.example.beacons import ORIGIN
from tests.example.running import identity


@pytest.fixture(autouse=True)
def _own_place_in_redis() -> Iterator[None]:
    """What one test leaves in Redis must not land in the database of another one."""
    prefix = secrets.token_hex(6)
    caches = {
        "default": {
            "BACKEND": "django.core.cache.backends.redis.RedisCache",
            "LOCATION": os.environ["REDIS_URL"],
            "KEY_PREFIX": prefix,
        }
    }
    with override_settings(CACHES=caches):
        yield
        for one in (prefix, prefix_in_redis(identity())):
            forget_pending("default", one)
            forget_rest(one)


@pytest.fixture(autouse=True)
def _pages_may_count() -> None:
    """Other tests may have exposed other fields, or none."""
    count_for(ORIGIN)


def forget_rest(prefix: str) -> None:
    """Delete what the cache and Celery have left."""
    with redis.Redis.from_url(os.environ["REDIS_URL"]) as client:
        if left := list(client.scan_iter(f"{prefix}*")):
            client.delete(*left)


@pytest.fixture
def no_redis() -> Iterator[None]:
    """Nothing answers where Redis should be."""
    caches = {
        "default": {
            "BACKEND": "django.core.cache.backends.redis.RedisCache",
            "LOCATION": "unix:///nonexistent/socket",
            "KEY_PREFIX": "none",
        }
    }
    with override_settings(CACHES=caches):
        yield
