"""The least that counting needs. The runner points ``default`` at scratch databases."""

from __future__ import annotations

import os

import dj_database_url

DATABASES = {"default": dj_database_url.config(default="postgres:///postgres")}
CACHES = {
    "default": {
        "BACKEND": "django.core.cache.backends.redis.RedisCache",
        "LOCATION": os.environ.get("REDIS_URL", "redis://127.0.0.1"),
    }
}
INSTALLED_APPS = ["django.contrib.contenttypes", "django_counters", "benchmarks"]
USE_TZ = True
SECRET_KEY = "nothing is signed here"

COUNTERS = {
    "stock": {"FLOOR": 0},
    "spread": {"STRATEGY": "sharded"},
    "combined": {"OPTIONS": {"combine": True}},
    "orders": {"STRATEGY": "ledger"},
    # Patient: a lost answer would be no figure.
    "pages": {"STRATEGY": "cached", "OPTIONS": {"timeout": 10}},
}
