"""A small project with a schema for each tenant, in the database of ``DATABASE_URL``."""

from __future__ import annotations

import os
from typing import Any

import dj_database_url

SECRET_KEY = "tests only"
DATABASES: dict[str, Any] = {
    "default": {
        **dj_database_url.parse(os.environ["DATABASE_URL"]),
        "ENGINE": "tests.tenants.backend",
        "NAME": os.environ["TENANTS_DATABASE"],
    }
}
CACHES = {
    "default": {
        "BACKEND": "django.core.cache.backends.redis.RedisCache",
        "LOCATION": os.environ["REDIS_URL"],
        "KEY_PREFIX": os.environ["TENANTS_DATABASE"],
    },
    "dead": {
        "BACKEND": "django.core.cache.backends.redis.RedisCache",
        "LOCATION": "redis://127.0.0.1:1",
    },
}
INSTALLED_APPS = [
    "django.contrib.contenttypes",
    "django.contrib.auth",
    "django_counters",
    "django_counters.contrib.likes",
    "django_counters.contrib.limits",
    "django_counters.contrib.series",
]
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
USE_TZ = True
if os.environ.get("TENANTS_APART", "1") == "1":
    COUNTERS_TENANT = "tests.tenants.running.current"
    COUNTERS_TENANT_CONTEXT = "tests.tenants.running.acting_for"
COUNTERS = {
    "other": {"PER": ["day"]},
    "clicks": {"PER": ["day"], "TAGS": {"country": 10}},
    "late": {"PER": ["day"], "TAGS": {"country": 10}},
    "spilled": {"STRATEGY": "cached", "CACHE": "dead"},
    "votes": {"ONCE": True},
    "orders": {"STRATEGY": "ledger", "OPTIONS": {"retention_days": 30}},
    "views": {"STRATEGY": "cached", "OPTIONS": {"timeout": 10}},
}
