"""Settings of the processes of a scene: those of the suite, on the servers of the scene."""

from __future__ import annotations

import os
from typing import Any

import dj_database_url

from tests.faults.cells import MEASURED
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
CACHED = {"STRATEGY": "cached", "CACHE": CACHE, "OPTIONS": PATIENCE, **MEASURED}
COUNTERS = {
    "plainly": MEASURED,
    "shards": {"STRATEGY": "sharded", **MEASURED},
    "entries": {"STRATEGY": "ledger", **MEASURED},
    "asked": {"API": {"read": "anyone", "increment": "authenticated"}, **MEASURED},
    "plain": {**CACHED, "ON_REDIS_DOWN": "raise"},
    "spill": {**CACHED, "ON_REDIS_DOWN": "ledger"},
}
LOGGING_CONFIG = None
