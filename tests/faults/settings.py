"""Settings of the processes of a scene: those of the suite, on the servers of the scene."""

from __future__ import annotations

import os
from typing import Any

import dj_database_url

from tests.settings import *  # noqa: F403

# An alias of CACHES, or a URL.
CACHE = os.environ.get("COUNTERS_FAULTS_CACHE", "default")
DATABASES = {"default": dict[str, Any](dj_database_url.parse(os.environ["DATABASE_URL"]))}
CACHES = {
    "default": {
        "BACKEND": "django.core.cache.backends.redis.RedisCache",
        "LOCATION": os.environ["REDIS_URL"],
    }
}
# A busy machine must not turn every other answer into an unknown outcome.
PATIENCE = {"timeout": 0.5}
COUNTERS = {
    "shards": {"STRATEGY": "sharded"},
    "entries": {"STRATEGY": "ledger"},
    "asked": {"API": {"read": "anyone", "increment": "authenticated"}},
    "plain": {"STRATEGY": "cached", "CACHE": CACHE, "ON_REDIS_DOWN": "raise", "OPTIONS": PATIENCE},
    "spill": {"STRATEGY": "cached", "CACHE": CACHE, "ON_REDIS_DOWN": "ledger", "OPTIONS": PATIENCE},
}
LOGGING_CONFIG = None
