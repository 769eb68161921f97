"""The least that counting needs. The runner points the databases at scratch ones."""

from __future__ import annotations

import os
from pathlib import Path
from tempfile import gettempdir

import dj_database_url

DATABASES = {
    alias: dj_database_url.config(default="postgres:///postgres") for alias in ("default", "other")
}
CACHES = {
    "default": {
        "BACKEND": "django.core.cache.backends.redis.RedisCache",
        "LOCATION": os.environ.get("REDIS_URL", "redis://127.0.0.1"),
    }
}
INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django_counters",
    "django_counters.contrib.buffers",
    "django_counters.contrib.holds",
    "django_counters.contrib.likes",
    "django_counters.contrib.limits",
    "django_counters.contrib.streams",
    "django_counters.contrib.regions",
    "django_counters.contrib.series",
    "django_counters.contrib.top",
    "django_counters.contrib.uniques",
    "benchmarks",
]
USE_TZ = True
SECRET_KEY = "it signs what the visitors of the benchmarks show, and nothing else"

# What the server of the cases about HTTP needs, and no more: both sides have each layer.
ROOT_URLCONF = "benchmarks.site"
ALLOWED_HOSTS = ["127.0.0.1"]
MIDDLEWARE = ["django.middleware.common.CommonMiddleware"]  # it says how long an answer is
REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "rest_framework_simplejwt.authentication.JWTStatelessUserAuthentication"
    ],
    "DEFAULT_PERMISSION_CLASSES": ["rest_framework.permissions.IsAuthenticated"],
    "DEFAULT_PARSER_CLASSES": ["rest_framework.parsers.JSONParser"],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
}
_CELLS = {"PER": ["hour", "day"], "TAGS": {"country": 250}}
_API = {"read": "authenticated", "increment": "authenticated"}

# A file for each run of the case about them.
FILES = str(Path(gettempdir(), "django_counters-benchmarks"))

COUNTERS = {
    "stock": {"FLOOR": 0},
    "spread": {"STRATEGY": "sharded"},
    "sold": {"STRATEGY": "sharded", "FLOOR": 0},
    "orders": {"STRATEGY": "ledger"},
    # Patient: a lost answer would be no figure.
    "pages": {"STRATEGY": "cached", "OPTIONS": {"timeout": 10}},
    "blind": {"STRATEGY": "cached", "OPTIONS": {"timeout": 10, "returns": "nothing"}},
    # Landed when a case is over.
    "buffered": {"BUFFER": {"seconds": 3600}},
    "filed": {"BUFFER": {"seconds": 3600, "directory": FILES}},
    "hits": {"STRATEGY": "cached", "OPTIONS": {"timeout": 10}, "API": _API},
    "sales": {"API": _API},
    "liked": {"ONCE": True},
    "visits": _CELLS,
    "clicks": {"STRATEGY": "sharded", **_CELLS},
    "calls": {"CEILING": {"month": 10**12}},
    "monthly": {"PER": ["month"]},
    "daily": {"STRATEGY": "cached", "OPTIONS": {"timeout": 10}, "PER": ["day"]},
    "weekly": {"TOP": ["week"]},
    "people": {
        **{"STRATEGY": "cached", "OPTIONS": {"timeout": 10}},
        **{"PER": ["day"], "UNIQUE": ["day"]},
    },
    "hourly": {"STRATEGY": "cached", "OPTIONS": {"timeout": 10}, **_CELLS},
}
