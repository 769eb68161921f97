"""Settings for Django's own tests; Django adds the applications."""

from __future__ import annotations

import os

import dj_database_url

DATABASES = {
    alias: {
        **dj_database_url.parse(os.environ["DATABASE_URL"]),
        "TEST": {"NAME": f"test_{os.environ['COUNTERS_TEST_RUN']}_{alias}"},
    }
    for alias in ("default", "other")
}
SECRET_KEY = "tests only"
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
USE_TZ = False
TEST_RUNNER = "tests.django_suite.runner.Runner"
