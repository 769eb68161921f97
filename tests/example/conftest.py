"""Every test of the example has a place of its own in Redis, and the settings of the example."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator

import pytest
import redis
from django.test import override_settings

from django_counters.testing import override_counters
from example_project.bootstrap.services import DATA
from example_project.settings import COUNTERS, prefix_in_redis
from example_project.urls import count_for
from tests.conftest import forget_pending
from tests.example.running import identity, url_of_the_test

# One of the sites that the URLs name.
ORIGIN = "http://localhost:8000"


def cache_at(location: str, prefix: str) -> dict[str, dict[str, str]]:
    """Where the cache is."""
    backend = "django.core.cache.backends.redis.RedisCache"
    return {"default": {"BACKEND": backend, "LOCATION": location, "KEY_PREFIX": prefix}}


@pytest.fixture(autouse=True)
def _own_place_in_redis() -> Iterator[None]:
    """What one test leaves in Redis must not land in the database of another one."""
    prefix = secrets.token_hex(6)
    caches = cache_at(os.environ["REDIS_URL"], prefix)
    # What a process of the example counts by day, and what this one does, is of one time zone.
    with override_settings(CACHES=caches, TIME_ZONE="UTC"), override_counters(**COUNTERS):
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
def site(transactional_db: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """This process counts where those look for what waits that it starts."""
    url = url_of_the_test()
    monkeypatch.setenv("DATABASE_URL", url)
    monkeypatch.setenv(DATA, f"{url} {identity()}")
    with override_settings(CACHES=cache_at(os.environ["REDIS_URL"], prefix_in_redis(identity()))):
        yield
