"""Settings of the test suite. The database is what DATABASE_URL says, or is started here."""

from __future__ import annotations

import os
import secrets
from typing import Any

import dj_database_url

from example_project.bootstrap.services import ensure

ensure()

# A name that nobody else has: Django drops a test database that is already there.
RUN = os.environ.setdefault("COUNTERS_TEST_RUN", secrets.token_hex(4))


def _database(purpose: str) -> dict[str, Any]:
    settings: dict[str, Any] = dict(dj_database_url.parse(os.environ["DATABASE_URL"]))
    name = f"test_counters_{RUN}"
    settings["TEST"] = {"NAME": f"{name}_{purpose}", "TEMPLATE": f"{name}_template"}
    if settings["ENGINE"].endswith("sqlite3"):
        # A worker of pytest-xdist adds its name at the end, where SQLite does not mind it.
        settings["TEST"] = {"NAME": f"file:test_{RUN}_{purpose}?mode=memory&cache=shared&of="}
    return settings


SECRET_KEY = "tests only, and long enough to sign the tokens of tests"
DEBUG = False
USE_TZ = True
ALLOWED_HOSTS = ["testserver", "127.0.0.1", "localhost"]
DATABASES = {"default": _database("default"), "other": _database("other")}
CACHES = {
    "default": {
        "BACKEND": "django.core.cache.backends.redis.RedisCache",
        "LOCATION": os.environ["REDIS_URL"],
        "KEY_PREFIX": f"{RUN}-{os.environ.get('PYTEST_XDIST_WORKER', '')}",
    }
}
# Nobody guesses the passwords of tests: the slow hashers of Django would take minutes.
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
INSTALLED_APPS = [
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.messages",
    "django.contrib.sessions",
    "django.contrib.staticfiles",
    "drf_spectacular",
    "rest_framework",
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
    "example_project.blog",
    "example_project.shop",
    "example_project.live",
    "tests.testapp",
    "tests.extension",
    "tests.extension.weekdays",
]
MIDDLEWARE = [
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
]
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": ["example_project/templates"],
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
REST_FRAMEWORK: dict[str, Any] = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "rest_framework_simplejwt.authentication.JWTAuthentication",
        "rest_framework.authentication.SessionAuthentication",
    ],
    "DEFAULT_SCHEMA_CLASS": "drf_spectacular.openapi.AutoSchema",
}
SPECTACULAR_SETTINGS: dict[str, Any] = {}
STATIC_URL = "static/"
