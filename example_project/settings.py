"""Settings of the example: one database, one cache, loopback only."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import dj_database_url
from django.core.exceptions import ImproperlyConfigured

from example_project.bootstrap.folders import PREFIX

BASE_DIR = Path(__file__).resolve().parent
DATABASE_URL = os.environ.get("DATABASE_URL", "")
if not DATABASE_URL:
    raise ImproperlyConfigured("start with python3 -m example_project, or export DATABASE_URL")


def _options(url: str) -> dict[str, object]:
    if not url.startswith("sqlite"):
        return {}
    # A writer asks for the lock when its transaction begins, and then waits instead of failing.
    return {"timeout": 30, "transaction_mode": "IMMEDIATE"}


def _is_our_own(url: str) -> bool:
    """Whether the server was started for this run alone: its socket is in a private folder."""
    hosts = parse_qs(urlsplit(url).query).get("host", [])
    return any(Path(host).name.startswith(f"{PREFIX}-") for host in hosts)


# Signs nothing that outlives a demonstration on the loopback interface.
SECRET_KEY = "example-project-demo-only-" + hashlib.sha256(DATABASE_URL.encode()).hexdigest()
DEBUG = False
ALLOWED_HOSTS = ["127.0.0.1", "localhost", "[::1]"]

INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django_counters",
    "example_project.blog",
    "example_project.shop",
]
MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
]
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]
ROOT_URLCONF = "example_project.urls"
WSGI_APPLICATION = "example_project.wsgi.application"

# Every thread of the server keeps its connection, and there is a fixed number of threads.
_DATABASE = dj_database_url.parse(DATABASE_URL, conn_max_age=None)
DATABASES = {
    "default": {**_DATABASE, "OPTIONS": {**_DATABASE.get("OPTIONS", {}), **_options(DATABASE_URL)}}
}
OUR_OWN_SERVER = _is_our_own(DATABASE_URL)
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

REDIS_URL = os.environ.get("REDIS_URL")
CACHES = {
    "default": {
        "BACKEND": "django.core.cache.backends."
        + ("redis.RedisCache" if REDIS_URL else "locmem.LocMemCache"),
        "LOCATION": REDIS_URL or "example",
        # Two databases that share a cache must not show each other's numbers.
        "KEY_PREFIX": "djc-example-" + hashlib.sha256(DATABASE_URL.encode()).hexdigest()[:8],
    }
}

COUNTERS: dict[str, dict[str, object]] = {
    "default": {"STRATEGY": "exact"},
    "downloads": {"STRATEGY": "sharded"},
    "visits": {"STRATEGY": "exact", "FLOOR": 0},
    "orders": {"STRATEGY": "ledger", "OPTIONS": {"retention_days": 30}},
    "page": {"STRATEGY": "exact", "FLOOR": 0},
    "status": {"STRATEGY": "exact", "FLOOR": 0},
    "hour": {"STRATEGY": "exact", "FLOOR": 0},
}

USE_TZ = True
TIME_ZONE = "UTC"
STATIC_URL = "static/"
STATICFILES_DIRS = [BASE_DIR / "static"]
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "handlers": {"stderr": {"class": "logging.StreamHandler"}},
    "loggers": {"django": {"handlers": ["stderr"], "level": "ERROR", "propagate": False}},
}
