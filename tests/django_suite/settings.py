"""Settings for Django's own tests; Django adds the applications."""

from __future__ import annotations

import os
from typing import Any

import dj_database_url
import django


def _database(alias: str) -> dict[str, Any]:
    settings: dict[str, Any] = dict(dj_database_url.parse(os.environ["DATABASE_URL"]))
    if not settings["ENGINE"].endswith("sqlite3"):
        settings["TEST"] = {"NAME": f"test_{os.environ['COUNTERS_TEST_RUN']}_{alias}"}
    return settings


DATABASES = {alias: _database(alias) for alias in ("default", "other")}
SECRET_KEY = "tests only"
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
USE_TZ = False
if django.VERSION < (6, 0):
    DEFAULT_AUTO_FIELD = "django.db.models.AutoField"
TEST_RUNNER = "tests.django_suite.runner.Runner"
