"""The least that counting needs. The runner points ``default`` at a scratch database."""

from __future__ import annotations

import dj_database_url

DATABASES = {"default": dj_database_url.config()}
INSTALLED_APPS = ["django_counters", "benchmarks"]
USE_TZ = True
SECRET_KEY = "nothing is signed here"

COUNTERS = {"stock": {"FLOOR": 0}}
